// The protocol's own conformance tests against a server.
//
//     node conformance.mjs URL KEY SCENARIO...
//
// Their command cannot send a key, so a small proxy before the server adds one and passes everything else on as it came, Host
// and Origin above all. What the server answers to a foreign name is the server's own word: the proxy refuses nothing.
import { spawn } from "node:child_process";
import http from "node:http";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [url, key, ...scenarios] = process.argv.slice(2);
const server = new URL(url);
const cli = join(dirname(fileURLToPath(import.meta.url)), "../../node_modules/@modelcontextprotocol/conformance/dist/index.js");

const foreign = [];
const proxy = http.createServer((asked, answer) => {
  const headers = { ...asked.headers, "x-api-key": key };
  const passed = http.request({ host: server.hostname, port: server.port, method: asked.method, path: asked.url, headers }, (said) => {
    answer.writeHead(said.statusCode, said.headers);
    if (!/^(localhost|127\.0\.0\.1)(:|$)/.test(asked.headers.host)) {
      let body = "";
      said.on("data", (piece) => (body += piece));
      said.on("end", () => foreign.push({ host: asked.headers.host, status: said.statusCode, code: JSON.parse(body).code }));
    }
    said.pipe(answer);
  });
  passed.on("error", (error) => answer.destroy(error));
  asked.pipe(passed);
});
await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
const address = `http://127.0.0.1:${proxy.address().port}/mcp`;

let failed = false;
for (const scenario of scenarios) {
  const child = spawn(process.execPath, [cli, "server", "--url", address, "--scenario", scenario], { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (piece) => (said += piece));
  const code = await new Promise((resolve) => child.on("close", resolve));
  console.log(`${scenario}: ${code === 0 ? "passed" : `FAILED (${code})`}`);
  if (code !== 0) {
    failed = true;
    console.log(said);
  }
}
for (const { host, status, code } of foreign) console.log(`the server answered ${host}: ${status} ${code}`);
proxy.close();
proxy.closeAllConnections();
process.exitCode = failed ? 1 : 0;
