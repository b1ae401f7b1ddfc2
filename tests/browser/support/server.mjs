// A real `glassbox serve` of one's own: own port, data, keys and labels; nothing of it is left behind.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Api } from './api.mjs';
import { objectsOf, removeObjectsOf, requireDocker } from './docker.mjs';
import { BINARY, CHROMIUM, HELPER, PAGE } from './paths.mjs';
import { DEADLINE_MS, until } from './wait.mjs';

/** As in `tests/src/server.rs`, so that each kind of test tidies up after killed ones of either kind. */
const PREFIX = 'glassbox-test-';
const STOP_DEADLINE_MS = 20_000;
const SHOWN_LOG_LINES = 60;

function requireFiles() {
  const needed = { server: BINARY, helper: HELPER, page: PAGE, browser: CHROMIUM };
  for (const [what, path] of Object.entries(needed)) {
    if (!existsSync(path)) throw new Error(`the ${what} is missing (${path}); run \`make setup build\` first.`);
  }
}

function instanceIn(folder) {
  try {
    return readFileSync(join(folder, 'data/instance'), 'utf8').trim() || null;
  } catch {
    return null;
  }
}

function removeRemainsOfDeadTests() {
  for (const name of readdirSync(tmpdir())) {
    const pid = name.match(/^glassbox-test-(\d+)-/)?.[1];
    if (!pid || existsSync(`/proc/${pid}`)) continue;
    const instance = instanceIn(join(tmpdir(), name));
    if (instance) removeObjectsOf(instance);
    rmSync(join(tmpdir(), name), { recursive: true, force: true });
  }
}

export class Server {
  /** `demo`: with the scripted agent and without keys, as the README starts it. */
  static async start({ demo = false, env = {} } = {}) {
    requireFiles();
    await requireDocker();
    removeRemainsOfDeadTests();
    const server = new Server(demo, env);
    process.once('exit', server.#lastMoment);
    try {
      await server.launch();
    } catch (error) {
      await server.close();
      throw error;
    }
    return server;
  }

  #lastMoment = () => this.#removeAll();
  #process = null;
  #log;

  constructor(demo, env) {
    this.demo = demo;
    this.folder = mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`));
    this.keys = { acme: `acme-${randomBytes(16).toString('hex')}`, empty: `empty-${randomBytes(16).toString('hex')}` };
    this.listen = '127.0.0.1:0';
    this.env = env;
    this.output = [];
    this.#log = join(this.folder, 'log');
  }

  /** Starts the process, on the same port and data as before. */
  async launch() {
    const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('GLASSBOX_')));
    const env = {
      ...inherited,
      GLASSBOX_HELPER: HELPER,
      GLASSBOX_DATA_DIR: join(this.folder, 'data'),
      GLASSBOX_LISTEN: this.listen,
      GLASSBOX_REQUESTS_PER_MINUTE: '1000000',
      GLASSBOX_PAGE_REQUESTS_PER_MINUTE: '1000000',
      GLASSBOX_MAX_SESSIONS: '40',
      // Room by the books: what these tests really use is little.
      GLASSBOX_MEMORY_TOTAL: '64g',
      RUST_LOG: 'glassbox=debug,info',
      NO_COLOR: '1',
      ...this.env,
    };
    if (!this.demo) env.GLASSBOX_API_KEYS = Object.entries(this.keys).map((pair) => pair.join(':')).join(',');
    const log = openSync(this.#log, 'a');
    const child = spawn(BINARY, this.demo ? ['serve', '--demo'] : ['serve'], { env, stdio: ['ignore', 'pipe', log] });
    closeSync(log);
    this.#process = child;
    child.on('exit', () => {
      if (this.#process === child) this.#process = null;
    });
    this.output = [];
    let rest = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop();
      this.output.push(...lines);
    });
    const said = (start) => {
      if (this.#process === null) throw new Error('it ended');
      const line = this.output.find((line) => line.startsWith(start));
      return line?.slice(line.indexOf('http'));
    };
    try {
      this.base = await until('the server is ready', () => said('glassbox is ready at '));
      this.link = await until('the server prints a sign-in link', () => said('sign in '));
    } catch (error) {
      throw new Error(`${error.message}\n${this.log()}`);
    }
    this.listen = new URL(this.base).host;
  }

  /** The end of its log. */
  log() {
    return readFileSync(this.#log, 'utf8').split('\n').slice(-SHOWN_LOG_LINES).join('\n');
  }

  /** Speaks with the operator's key of a tenant. */
  operator(tenant = 'acme') {
    const key = this.demo ? readFileSync(join(this.folder, 'data/operator.key'), 'utf8').trim() : this.keys[tenant];
    return new Api(this.base, key);
  }

  /** `kill -9`, and gone. */
  async killHard() {
    await this.#end('SIGKILL');
  }

  async #end(signal) {
    const child = this.#process;
    if (!child) return;
    child.kill(signal);
    await until(`the server ends by ${signal}`, () => this.#process === null, { deadline: STOP_DEADLINE_MS });
  }

  /** Ends its sessions, stops it, and looks whether something is left. */
  async close() {
    const problems = [];
    try {
      if (this.#process) {
        for (const tenant of this.demo ? ['default'] : Object.keys(this.keys)) {
          const api = this.operator(tenant);
          const sessions = await api.sessions();
          await Promise.all(sessions.map((session) => api.deleteSession(session.session_id)));
        }
        await this.#end('SIGTERM');
        const instance = instanceIn(this.folder);
        const left = instance ? await objectsOf(instance) : [];
        if (left.length > 0) problems.push(`left behind after every session was deleted: ${left.join(', ')}`);
      }
    } catch (error) {
      problems.push(error.message);
    }
    process.removeListener('exit', this.#lastMoment);
    const log = problems.length > 0 ? `\n${this.log()}` : '';
    this.#removeAll();
    if (problems.length > 0) throw new Error(problems.join('; ') + log);
  }

  #removeAll() {
    this.#process?.kill('SIGKILL');
    const instance = instanceIn(this.folder);
    if (instance) removeObjectsOf(instance);
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Waits for a line on its standard output. */
  async says(text) {
    return until(`the server says ${text}`, () => this.output.find((line) => line.match(text)), { deadline: 2 * DEADLINE_MS, told: () => this.output.slice(-8).join(' | ') });
  }
}
