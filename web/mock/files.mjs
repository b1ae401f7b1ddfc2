// The made-up files of server.mjs: one tree for all sessions, kept in memory. Paths are percent-encoded bytes.
import { setTimeout as pause } from "node:timers/promises";

const now = () => Date.now() / 1000;
let version = 1;
const all = new Map();
const uploads = new Map();
const put = (path, content, age = 0, more = {}) => all.set(path, { content, modified: now() - age, version: `v${version++}`, ...more });
const folder = (path, age = 900) => put(path, null, age);
const quote = (bytes) => [...Buffer.from(bytes)].map((byte) => (/[A-Za-z0-9\-._~/]/.test(String.fromCharCode(byte)) ? String.fromCharCode(byte) : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`)).join("");
const bytesOf = (path) => Buffer.from(path.replace(/%(..)/g, (_, hex) => String.fromCharCode(parseInt(hex, 16))), "latin1");
const display = (path) => new TextDecoder().decode(bytesOf(path.split("/").filter(Boolean).at(-1) ?? "")).replace(/[\u0000-\u001f\u200e\u200f\u202a-\u202e]/g, (c) => `\\u{${c.charCodeAt(0).toString(16)}}`).replace(/\ufffd/g, "\\xff");

folder("/"); folder("/etc", 9e6); folder("/root"); folder("/root/src"); folder("/root/tests"); folder("/root/big");
put("/root/README.md", "# payments\n\nRounds what is paid, and nothing else.\n\n```sh\npytest -q\n```\n", 86400);
put("/root/src/round.py", "import decimal\n\n# Half to even, as banks do.\ndef rounded(amount, places=2):\n    quantum = decimal.Decimal(10) ** -places\n    return amount.quantize(quantum, rounding=\"ROUND_HALF_EVEN\")\n\n\nclass Ledger:\n    def __init__(self):\n        self.entries = []\n\n    def add(self, amount):\n        if amount is None:\n            raise ValueError('no amount')\n        self.entries.append(rounded(amount))\n        return len(self.entries)\n", 40);
put("/root/src/main.rs", "fn main() {\n    // says hello\n    let n = 42;\n    println!(\"hello {n}\");\n}\n", 4000);
put("/root/tests/test_round.py", "from round import rounded\n\ndef test_half():\n    assert rounded(2.5, 0) == 2\n", 70);
put("/root/Makefile", "all: test\n\ntest:\n\tpytest -q\n", 5000);
put("/root/dump.bin", Buffer.from(Array.from({ length: 9000 }, (_, i) => (i * 37) & 255)), 300);
put("/root/pixel.png", Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAHklEQVR4nGNkYPjPgA0wYRUdtBKM/7FLMDFQSQIAYVQDDQ0BmY4AAAAASUVORK5CYII=", "base64"), 200);
put(`/root/${quote("<img src=x onerror=alert(1)>.txt")}`, "harmless\n", 100);
put(`/root/${quote("\u202egpj.exe")}`, "right to left\n", 100);
put("/root/not%FFtext", "", 100);
put("/root/latest", null, 50, { link: "src/round.py" });
for (let i = 0; i < 65_000; i++) put(`/root/big/file-${String(i).padStart(5, "0")}.txt`, `${i}\n`, i);

const kindOf = (item) => (item.link ? "link" : item.content === null ? "folder" : "file");
const entry = (path) => {
  const item = all.get(path);
  return { path, name: display(path), type: kindOf(item), size: item.content?.length ?? 0, mode: item.content === null ? "0755" : "0644", uid: 0, gid: 0, owner: "root", modified: item.modified, version: item.version, ...(item.link && { target: { path: item.link, name: item.link, type: "file" } }) };
};
const parent = (path) => path.replace(/\/[^/]*$/, "") || "/";
const inside = (path) => [...all.keys()].filter((other) => other !== "/" && parent(other) === path);
const versionOf = (path) => (all.get(path).content === null ? `${inside(path).length}-${Math.max(0, ...inside(path).slice(0, 3000).map((one) => Number(all.get(one).version.slice(1))))}` : all.get(path).version);

// The agent works.
setTimeout(() => put("/root/tests/test_pay.py", "def test_pay():\n    pass\n"), 9_000).unref();

export async function files(request, response, url, bytes, what, id) {
  const query = (name) => new RegExp(`[?&]${name}=([^&]*)`).exec(url.search)?.[1] ?? "";
  const json = (status, value) => { response.writeHead(status, { "content-type": "application/json" }); response.end(JSON.stringify(value)); };
  const fail = (status, code, detail) => json(status, { detail, code, request_id: "mock" });
  const body = () => JSON.parse(bytes);
  let path = query("path") || "/root";
  if (what === "uploads") {
    if (request.method === "POST") { const { path, size } = body(); if (all.has(path)) return fail(409, "exists", "There is one."); uploads.set("u1", { path, size, parts: [] }); return json(201, { upload_id: "u1", offset: 0, size }); }
    const upload = uploads.get(id);
    if (!upload) return fail(404, "not_found", "No such upload.");
    if (request.method === "PATCH") { await pause(300); upload.parts.push(bytes); }
    const offset = upload.parts.reduce((sum, part) => sum + part.length, 0);
    if (request.method === "DELETE") { uploads.delete(id); return json(200, {}); }
    if (offset >= upload.size) { put(upload.path, Buffer.concat(upload.parts)); return json(200, { offset, entry: entry(upload.path) }); }
    return json(200, { offset, size: upload.size });
  }
  if (what === "folders") { folder(body().path, 0); return json(201, entry(body().path)); }
  if (what === "rename") { const { from, to } = body(); if (all.has(to)) return fail(409, "exists", "There is something of this name already."); all.set(to, all.get(from)); all.delete(from); return json(200, entry(to)); }
  if (!all.has(path) && request.method !== "PUT") return fail(404, "not_found", "There is no such file.");
  if (what === "list") {
    const by = query("sort"), sign = query("order") === "desc" ? -1 : 1;
    const filter = decodeURIComponent(query("filter")).toLowerCase();
    const key = { size: (e) => e.size, modified: (e) => e.modified, type: (e) => (e.type === "folder" ? 0 : 1) }[by];
    const found = inside(path).map(entry).filter((e) => e.name.toLowerCase().includes(filter));
    found.sort((a, b) => sign * ((key ? key(a) - key(b) : 0) || (a.path < b.path ? -1 : 1)));
    const from = Number(query("cursor") || 0), limit = Number(query("limit") || 200);
    await pause(60);
    return json(200, { path, name: display(path), version: versionOf(path), total: found.length, entries: found.slice(from, from + limit), ...(from + limit < found.length && { next: String(from + limit) }) });
  }
  if (what === "watch") {
    const known = decodeURIComponent(query("version"));
    for (let end = now() + Number(query("wait")); now() < end && versionOf(path) === known; ) await pause(200);
    return json(200, { version: versionOf(path), changed: versionOf(path) !== known });
  }
  const link = all.get(path)?.link;
  if (link && what !== "entry") path = `/root/${link}`;
  if (what === "stat") return json(200, entry(path));
  if (what === "entry") {
    response.writeHead(200, { "content-type": "application/x-ndjson" });
    const doomed = [...all.keys()].filter((other) => other === path || other.startsWith(`${path}/`));
    for (const [at, other] of doomed.entries()) { all.delete(other); if (at % 20_000 === 19_999) { response.write(`${JSON.stringify({ progress: { done: at, bytes: 0, path: other } })}\n`); await pause(250); } }
    return response.end(`${JSON.stringify({ done: { done: doomed.length, bytes: 0, skipped: 0 } })}\n`);
  }
  if (what === "content" && request.method === "PUT") {
    const known = request.headers["if-match"]?.replaceAll('"', "");
    if (known && all.get(path)?.version !== known) return fail(412, "changed", "It is another version now.");
    if (request.headers["if-none-match"] && all.has(path)) return fail(409, "exists", "There is one.");
    put(path, bytes);
    return json(200, entry(path));
  }
  const content = Buffer.from(all.get(path).content ?? "");
  const range = /bytes=(\d+)-(\d+)/.exec(request.headers.range ?? "");
  const part = range ? content.subarray(Number(range[1]), Number(range[2]) + 1) : content;
  response.writeHead(range ? 206 : 200, { "content-type": "application/octet-stream", "content-disposition": `attachment; filename*=UTF-8''${encodeURIComponent(display(path))}` });
  response.end(part);
}
