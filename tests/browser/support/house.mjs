// What the tests of one file share: a server, a browser, an agent. Made when the first test of the file runs.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { chromium } from 'playwright-core';

import { Api } from './api.mjs';
import { Glass } from './glass.mjs';
import { CHROMIUM, SCREENSHOTS } from './paths.mjs';
import { Server } from './server.mjs';

const TEST_DEADLINE_MS = 120_000;
const FLAGS = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
export const DESKTOP = { width: 1440, height: 900 };

class House {
  #options;
  #server;
  #browser;
  #keys = {};
  #session;

  constructor(options) {
    this.#options = options;
  }

  async server() {
    this.#server ??= Server.start(this.#options);
    return this.#server;
  }

  async #chromium() {
    this.#browser ??= chromium.launch({ executablePath: CHROMIUM, headless: true, chromiumSandbox: false, args: FLAGS });
    return this.#browser;
  }

  /** A key of tenant acme with this role. */
  async key(role) {
    const server = await this.server();
    if (role === 'operator') return server.operator().key;
    this.#keys[role] ??= server.operator().makeKey(role);
    return this.#keys[role];
  }

  /** A session of the agent that all tests of the file may use; sandboxes take their time to begin and to end. */
  async #sharedSession(agent) {
    this.#session ??= agent.makeSession('shared');
    return this.#session;
  }

  async run(name, body) {
    const server = await this.server();
    const browser = await this.#chromium();
    const agent = this.#options.demo ? null : new Api(server.base, await this.key('agent'));
    const open = { contexts: [], tabs: [] };

    /** A tab in a browser profile of its own, or in that of another tab. */
    const tab = async ({ beside, base = server.base, ...options } = {}) => {
      const context = beside?.page.context() ?? (await browser.newContext({ viewport: DESKTOP, colorScheme: 'light', reducedMotion: 'reduce', ...options }));
      if (!beside) open.contexts.push(context);
      const glass = new Glass(await context.newPage(), base);
      open.tabs.push(glass);
      return glass;
    };
    /** The same, with someone signed in. */
    const person = async ({ name: who = 'Ann', role = 'operator', key, ...options } = {}) => {
      const glass = await tab(options);
      await glass.signIn(key ?? (await this.key(role)), who);
      return glass;
    };
    try {
      await body({ server, agent, tab, person, session: () => this.#sharedSession(agent) });
      const problems = open.tabs.flatMap((glass) => glass.problems());
      if (problems.length > 0) throw new Error(`the browser complained:\n${problems.join('\n')}`);
    } catch (error) {
      await this.#keepEvidence(name, open.tabs, error);
      throw error;
    } finally {
      await Promise.all(open.contexts.map((context) => context.close().catch(() => {})));
    }
  }

  async #keepEvidence(name, tabs, error) {
    const folder = join(SCREENSHOTS, 'failures');
    mkdirSync(folder, { recursive: true });
    for (const [at, glass] of tabs.entries()) {
      const path = join(folder, `${name.replace(/[^a-z0-9]+/gi, '-').slice(0, 80)}-${at + 1}.png`);
      const kept = await glass.page.screenshot({ path, timeout: 5_000 }).then(() => true, () => false);
      if (kept) error.message += `\n(as it looked: ${path})`;
      for (const problem of glass.problems()) error.message += `\n(${problem})`;
    }
  }

  async close() {
    const problems = [];
    await (await this.#browser?.catch(() => null))?.close().catch((error) => problems.push(error));
    await (await this.#server?.catch(() => null))?.close().catch((error) => problems.push(error));
    if (problems.length > 0) {
      // A hook that fails does not fail the run in every version of node.
      process.exitCode = 1;
      throw problems[0];
    }
  }
}

/**
 * The tests of one file: `const check = house(); check('sentence', async ({ server, agent, session, tab, person }) => …)`.
 * After each of them no tab may have anything in its console that was not expected.
 */
export function house(options = {}) {
  const built = new House(options);
  after(() => built.close());
  const stop = () => built.close().finally(() => process.exit(1));
  process.once('SIGTERM', stop).once('SIGINT', stop);
  return (name, body) => test(name, { timeout: TEST_DEADLINE_MS }, () => built.run(name, body));
}
