// The made-up world of server.mjs: a busy morning, or nothing at all.
import { randomBytes } from "node:crypto";

const letters = "abcdefghijklmnopqrstuvwxyz234567";
const id = (prefix) => prefix + [...randomBytes(20)].map((byte) => letters[byte & 31]).join("");
const now = () => Date.now() / 1000;
const agent = (name) => ({ kind: "agent", name });
const human = (name) => ({ kind: "human", name });

export function world(kind) {
  const sessions = [], commands = new Map(), outputs = new Map();
  const model = { sessions, onOutput: () => {}, onCommand: () => {} };
  model.commands = (session) => commands.get(session) ?? [];
  model.output = (command) => outputs.get(command.command_id) ?? Buffer.alloc(0);
  model.latest = (session) => {
    const all = model.commands(session);
    return all.filter((c) => c.state === "running").at(-1) ?? all.at(-1) ?? null;
  };
  model.create = (wanted, by = human("Ann"), age = 0) => {
    const open = wanted.profile === "open";
    const session = {
      session_id: id("sbx_"), tenant_id: "acme", name: wanted.name ?? "unnamed", profile: wanted.profile ?? "hardened", persistent: true,
      template: "sandbox-base:latest", state: "ready", limits: { memory_bytes: open ? 2 ** 31 : 2 ** 28, cpus: open ? 2 : 1, pids_limit: open ? 512 : 384 },
      disk_quota_mb: 0, egress: [], created_by: by, created_at: now() - age, last_accessed_at: now() - 4, expires_at: now() + 1700, ended_at: null,
      control: { holder: by, since: now() - age }, commands_total: 0, commands_running: 0, restarts: [], metadata: wanted.metadata ?? {}, latest_command: null,
    };
    sessions.unshift(session);
    commands.set(session.session_id, []);
    return session;
  };
  model.run = (session, text, actor = session.created_by, age = 0, end = null) => {
    const all = commands.get(session.session_id);
    const command = {
      command_id: id("cmd_"), session_id: session.session_id, number: all.length + 1, command: text, cwd: null, split: false, actor,
      state: "running", created_at: now() - age, started_at: now() - age, ended_at: null, pid: 20 + all.length, limit_seconds: 86400, output_bytes: 0,
      output_missing_bytes: 0, last_output_at: null, output_closed: false, output_complete: false, out_of_memory: false, kill: null, ...end,
    };
    if (end) Object.assign(command, { ended_at: now() - age + (end.took ?? 1), output_closed: true, output_complete: true });
    all.push(command);
    session.commands_total += 1;
    if (!end) session.commands_running += 1;
    return command;
  };
  model.append = (command, text, age = 0) => {
    outputs.set(command.command_id, Buffer.concat([model.output(command), Buffer.from(text)]));
    command.output_bytes = model.output(command).length;
    command.last_output_at = now() - age;
    model.onOutput(command, text.replace(/\x1b\[[0-9;]*m/g, "").trim().split("\n").at(-1));
  };
  if (kind === "empty") return model;

  const done = (code, took = 1) => ({ state: "exited", code, took });
  const pay = model.create({ name: "payments-fix", profile: "open", metadata: { task: "PAY-1182", branch: "fix/rounding" } }, agent("claude-code"), 1900);
  model.append(model.run(pay, "git clone /srv/payments . && git checkout -b fix/rounding", undefined, 1800, done(0, 4)), "Cloning into '.'...\ndone.\nSwitched to a new branch 'fix/rounding'\n", 1800);
  model.append(model.run(pay, "ls -la", undefined, 1700, done(0, 0)), "total 48\ndrwxr-xr-x 6 root root 4096 .\n", 1700);
  model.append(model.run(pay, "make", undefined, 1500, done(2, 31)), "cc -c round.c\nround.c:41:9: \x1b[31merror:\x1b[0m expected ';'\nmake: *** [Makefile:7: round.o] Error 1\n", 1500);
  model.run(pay, "python3 -c 'import time; time.sleep(3600)'", undefined, 1300, { state: "timed_out", took: 60 });
  pay.restarts.push({ at: now() - 1100, cause: "oom", kept: "the workspace /root, all files in it", lost: "1 running command, processes in the background, /tmp" });
  model.run(pay, "python3 load_everything.py", undefined, 1200, { state: "interrupted", reason: "sandbox_died", cause: "oom", took: 95 });
  model.append(model.run(pay, "for i in 1 2 3; do\n  ./migrate --step $i \\\n    --database payments\ndone", undefined, 900, done(0, 12)), "step 1 ok\nstep 2 ok\nstep 3 ok\n", 890);
  const by = human("Ann");
  model.run(pay, "tail -f /var/log/messages", undefined, 700, { state: "killed", signal: 15, by, took: 44, kill: { signal: 15, took_ms: 2040, by, survivors: [] } });
  const tests = model.run(pay, "pytest -q --maxfail=3 tests/", undefined, 75);
  let log = "\x1b[1m============================= test session starts ==============================\x1b[0m\nplatform linux -- Python 3.11.2, pytest-8.3.4\nrootdir: /root\ncollected 412 items\n\n";
  for (let i = 0; i < 60; i++) log += `tests/test_rounding_${String(i).padStart(2, "0")}.py \x1b[32m${".".repeat(8)}\x1b[0m${i % 9 === 4 ? "\x1b[31mF\x1b[0m" : "\x1b[32m.\x1b[0m"}${i % 7 === 2 ? "\x1b[33ms\x1b[0m" : ""}   [${String(Math.round(i * 1.6)).padStart(3)}%]\n`;
  model.append(tests, log, 3);

  const docs = model.create({ name: "docs-site", profile: "open" }, agent("agent-7"), 4000);
  const build = model.run(docs, "npm run build", undefined, 14);
  model.append(build, "✓ built 1,204 modules\n");
  const etl = model.create({ name: "etl-backfill", profile: "hardened" }, agent("cron-agent"), 9000);
  model.append(model.run(etl, "python load.py --since 2024-01-01 --table orders,refunds,ledger_entries", undefined, 190), "  42 % …\n", 125);
  const scan = model.create({ name: "dependency-audit", profile: "hardened" }, agent("renovate"), 800);
  const left = model.run(scan, "nohup ./audit.sh &", undefined, 300, { state: "killed", signal: 9, by, took: 90, kill: { signal: 9, took_ms: 5020, by, survivors: [{ pid: 71, name: "miner" }, { pid: 72, name: "sh" }] } });
  model.append(left, "scanning 1,882 packages\n", 220);
  const own = model.create({ name: "scratch", profile: "open" }, human("Ann"), 600);
  model.append(model.run(own, "uname -a; cat /proc/version", undefined, 400, done(0, 0)), "Linux 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016 x86_64 GNU/Linux\n", 400);
  const big = model.run(own, "seq 1 200000", undefined, 300, done(0, 2));
  big.mock_gap = [1_200_000, 1_250_000];
  model.append(big, Array.from({ length: 200_000 }, (_, i) => i + 1).join("\n") + "\n", 299);
  const api = model.create({ name: "api-client-with-a-rather-long-name-for-a-session", profile: "open" }, agent("claude-code"), 7000);
  model.append(model.run(api, "cargo test --workspace --all-features -- --nocapture", undefined, 2000, done(101, 180)), "test result: FAILED. 211 passed; 3 failed; 0 ignored\n", 1900);
  const moving = model.create({ name: "sandbox-moving", profile: "open" }, agent("agent-7"), 50);
  moving.state = "restarting";
  for (let i = 0; i < 3; i++) {
    const idle = model.create({ name: `review-${81 + i}`, profile: "hardened" }, agent("reviewer"), 3000 + i * 700);
    model.append(model.run(idle, `git diff --stat HEAD~${i + 1}`, undefined, 2500 + i * 700, done(0, 1)), ` ${i + 3} files changed, ${31 * (i + 1)} insertions(+)\n`, 2500 + i * 700);
  }
  if (kind === "busy") {
    let n = 60;
    setInterval(() => model.append(tests, `tests/test_rounding_${n++}.py \x1b[32m.........\x1b[0m\n`), 4000);
    setInterval(() => model.append(build, `page ${n++} of 1,204\n`), 1500);
  }
  return model;
}
