// Serves web/dist with made-up sessions, to look at the page without Docker:
//   node web/mock/server.mjs [port]        then open http://localhost:PORT/ (any key and name)
// It speaks just enough of the REST API and of the live protocol (shared/src/live.rs). Nothing here is a test's truth.
import { createHash, randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { dirname, extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { files } from "./files.mjs";
import { world } from "./world.mjs";

const dist = process.env.DIST ?? join(dirname(fileURLToPath(import.meta.url)), "../dist");
const port = Number(process.argv[2] ?? 7171);
const types = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".wasm": "application/wasm", ".svg": "image/svg+xml" };
const model = world(process.env.MOCK ?? "busy");
const now = () => Date.now() / 1000;
let signedIn = process.env.SIGNED_OUT === undefined;
let sequence = 10;
const epoch = randomBytes(4).toString("hex");
const sockets = new Set();

const json = (response, status, value) => {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(value));
};
const fail = (response, status, code, detail) => json(response, status, { detail, code, request_id: "mock" });
const shown = (session) => ({ ...session, latest_command: model.latest(session.session_id) });

async function api(request, response, url) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const bytes = Buffer.concat(chunks);
  const [, , kind, id, what, command, act] = url.pathname.split("/");
  if (what === "fs") return files(request, response, url, bytes, command, act);
  const body = bytes.length ? JSON.parse(bytes) : {};
  if (kind === "sign-in") {
    if (body.key === "wrong" || body.link === "used") return fail(response, 401, body.link ? "link_expired" : "unauthorized", "No.");
    signedIn = true;
    return json(response, 200, {});
  }
  if (kind === "sign-out") { signedIn = false; return json(response, 200, {}); }
  if (!signedIn) return fail(response, 401, "unauthorized", "Sign in.");
  if (kind === "me") return json(response, 200, { tenant_id: "acme", role: process.env.ROLE ?? "operator", actor: { kind: "human", name: "Ann" }, version: "0.1.0" });
  if (kind !== "sessions") return fail(response, 404, "not_found", "No such route.");
  if (!id && request.method === "POST") {
    const session = model.create(body);
    announce({ kind: "session", session });
    return json(response, 201, session);
  }
  if (!id) return json(response, 200, { tenant_id: "acme", sessions: model.sessions.map(shown) });
  const session = model.sessions.find((session) => session.session_id === id);
  if (!session) return fail(response, 404, "not_found", "No such session.");
  if (!what && request.method === "DELETE") {
    model.sessions.splice(model.sessions.indexOf(session), 1);
    announce({ kind: "session", session: { ...session, state: "ended", reason: "deleted", ended_at: now() } });
    response.writeHead(204); return response.end();
  }
  if (!what) return json(response, 200, shown(session));
  const all = model.commands(id);
  if (!command && request.method === "POST") {
    const made = model.run(session, body.command, { kind: "human", name: "Ann" });
    announce({ kind: "command", command: made });
    setTimeout(() => { model.append(made, `$ ${body.command}\nok\n`); changed(made); Object.assign(made, { state: "exited", code: 0, ended_at: now(), output_closed: true, output_complete: true }); changed(made); }, 1500);
    return json(response, 201, made);
  }
  if (!command) {
    const before = Number(url.searchParams.get("before") ?? Infinity);
    const page = all.filter((c) => c.number < before).sort((a, b) => b.number - a.number).slice(0, 50);
    const last = page.at(-1)?.number;
    return json(response, 200, { commands: page, next: last > 1 ? last : null });
  }
  const found = all.find((c) => c.command_id === command);
  if (!found) return fail(response, 404, "not_found", "No such command.");
  if (act === "kill") {
    await new Promise((done) => setTimeout(done, 2100));
    const survivors = found.command.includes("nohup") ? [{ pid: 71, name: "miner" }, { pid: 72, name: "sh" }] : [];
    const by = { kind: "human", name: "Ann" };
    Object.assign(found, { state: "killed", signal: 15, by, ended_at: now(), output_closed: true, output_complete: true, kill: { signal: 15, took_ms: 2040, by, survivors } });
    changed(found);
    return json(response, 200, found);
  }
  if (act === "output") {
    response.writeHead(200, { "content-type": "application/octet-stream" });
    return response.end(model.output(found).subarray(Number(url.searchParams.get("from") ?? 0)));
  }
  if (act === "log") {
    response.writeHead(200, { "content-type": "application/octet-stream", "content-disposition": "attachment; filename=log.txt" });
    return response.end(model.output(found));
  }
  return json(response, 200, found);
}

const server = createServer(async (request, response) => {
  const url = new URL(request.url, "http://mock");
  if (url.pathname === "/mock/drop") { for (const socket of sockets) socket.destroy(); server.refuse = url.searchParams.has("refuse"); return response.end(); }
  if (url.pathname.startsWith("/v1/")) return api(request, response, url).catch((error) => fail(response, 500, "internal", String(error)));
  const file = normalize(url.pathname).replace(/^\/+/, "");
  let body, name = file;
  try { body = await readFile(join(dist, file || "index.html")); } catch { name = "index.html"; body = await readFile(join(dist, name)); }
  const hashes = [...String(await readFile(join(dist, "index.html"))).matchAll(/<script(?![^>]*\ssrc=)[^>]*>([\s\S]*?)<\/script>/g)].map((m) => `'sha256-${createHash("sha256").update(m[1]).digest("base64")}'`);
  response.writeHead(200, {
    "content-type": types[extname(name || ".html")] ?? types[".html"],
    "content-security-policy": `default-src 'none'; script-src 'self' 'wasm-unsafe-eval' ${hashes.join(" ")}; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src 'self' data: blob:; font-src 'self'`,
  });
  response.end(body);
});

// A WebSocket server in forty lines: text and binary out, masked text in.
const frame = (data, opcode) => {
  const head = data.length < 126 ? Buffer.from([0x80 | opcode, data.length]) : data.length < 65536 ? Buffer.from([0x80 | opcode, 126, data.length >> 8, data.length & 255]) : null;
  if (head) return Buffer.concat([head, data]);
  const long = Buffer.alloc(10); long[0] = 0x80 | opcode; long[1] = 127; long.writeBigUInt64BE(BigInt(data.length), 2);
  return Buffer.concat([long, data]);
};
server.on("upgrade", (request, socket) => {
  if (server.refuse) return socket.destroy();
  const accept = createHash("sha1").update(request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\nSec-WebSocket-Protocol: glassbox.v1\r\n\r\n`);
  socket.streams = new Map();
  socket.say = (message) => socket.writable && socket.write(frame(Buffer.from(JSON.stringify(message)), 1));
  sockets.add(socket);
  socket.on("close", () => sockets.delete(socket));
  socket.on("error", () => sockets.delete(socket));
  let pending = Buffer.alloc(0);
  socket.on("data", (data) => {
    pending = Buffer.concat([pending, data]);
    while (pending.length >= 6) {
      let length = pending[1] & 127, at = 2;
      if (length === 126) { length = pending.readUInt16BE(2); at = 4; }
      if (pending.length < at + 4 + length) return;
      const mask = pending.subarray(at, at + 4), payload = Buffer.from(pending.subarray(at + 4, at + 4 + length));
      for (let i = 0; i < length; i++) payload[i] ^= mask[i & 3];
      const opcode = pending[0] & 15;
      pending = pending.subarray(at + 4 + length);
      if (opcode === 8) return socket.end(frame(payload, 8));
      if (opcode === 1) hear(socket, JSON.parse(payload));
    }
  });
  socket.say({ type: "hello", epoch, sequence, now: now() });
});

function hear(socket, message) {
  if (message.type === "unwatch") socket.streams.delete(message.stream);
  if (message.type === "ack") { const s = socket.streams.get(message.stream); if (s) { s.acked = message.offset; pump(socket, s); } }
  if (message.type !== "watch") return;
  const command = model.commands(message.session_id).find((c) => c.command_id === message.command_id);
  if (!command) return socket.say({ type: "stream_error", stream: message.stream, code: "not_found", detail: "No such command." });
  const end = model.output(command).length;
  const offset = message.from.offset ?? Math.max(0, end - message.from.tail);
  const stream = { id: message.stream, command, offset, acked: offset, gap: command.mock_gap };
  socket.streams.set(stream.id, stream);
  socket.say({ type: "watching", stream: stream.id, offset });
  pump(socket, stream);
}

function pump(socket, stream) {
  if (stream.over || !socket.writable) return;
  const output = model.output(stream.command);
  while (stream.offset < output.length && stream.offset - stream.acked < 256 * 1024) {
    if (stream.gap && stream.offset >= stream.gap[0] && stream.offset < stream.gap[1]) {
      socket.say({ type: "gap", stream: stream.id, from: stream.offset, to: stream.gap[1], reason: "log_full" });
      stream.offset = stream.acked = stream.gap[1];
      continue;
    }
    const stop = stream.gap && stream.offset < stream.gap[0] ? stream.gap[0] : output.length;
    const bytes = output.subarray(stream.offset, Math.min(stop, stream.offset + 32768));
    const head = Buffer.alloc(12);
    head.writeUInt32LE(stream.id, 0); head.writeBigUInt64LE(BigInt(stream.offset), 4);
    socket.write(frame(Buffer.concat([head, bytes]), 2));
    stream.offset += bytes.length;
  }
  if (stream.command.output_closed && stream.offset === output.length) { stream.over = true; socket.say({ type: "stream_end", stream: stream.id, offset: stream.offset, complete: stream.command.output_complete }); }
}

function announce(event) {
  sequence += 1;
  for (const socket of sockets) socket.say({ type: "event", sequence, event });
}
function changed(command) {
  announce({ kind: "command", command });
  for (const socket of sockets) for (const stream of socket.streams.values()) if (stream.command === command) pump(socket, stream);
}
model.onOutput = (command, line) => {
  announce({ kind: "progress", session_id: command.session_id, command_id: command.command_id, output_bytes: command.output_bytes, last_output_at: command.last_output_at, last_line: line });
  for (const socket of sockets) for (const stream of socket.streams.values()) if (stream.command === command) pump(socket, stream);
};
model.onCommand = changed;
setInterval(() => { for (const socket of sockets) socket.say({ type: "heartbeat", now: now() }); }, 10_000);
server.listen(port, "127.0.0.1", () => console.log(`http://localhost:${port}/`));
