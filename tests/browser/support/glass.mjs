// The page as a person sees it: words for what one does and reads there.
import assert from 'node:assert/strict';

import { until } from './wait.mjs';

/** What any loss of the line makes the browser itself write into its console. */
export const LINE_LOST = /WebSocket connection to .* failed|net::ERR_|Failed to load resource: the server responded with a status of 50\d/;
/** A page that shows a session's files asks after their changes, also in the moment in which the session ends. */
export const FILES_GONE = /status of (404|503) .*\/fs\//;
/** Asked by the sign-in page, which has to know; the browser writes it down as an error. */
export const NOT_SIGNED_IN = /Failed to load resource: the server responded with a status of 401/;

/** What a person begins to feel as a stutter, by the bar. */
const LONGEST_TASK_MS = 200;
const SCROLL_STEPS = 100;
const SCROLL_TRIES = 3;

export class Glass {
  #problems = [];
  #expected = [];

  constructor(page, base) {
    this.page = page;
    this.base = base;
    page.setDefaultTimeout(30_000);
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) this.#problems.push(`console: ${message.text()} (${message.location().url})`);
    });
    page.on('pageerror', (error) => this.#problems.push(`uncaught: ${error.message}`));
    page.on('popup', (popup) => this.#problems.push(`opened a window: ${popup.url()}`));
    page.on('download', (download) => this.#problems.push(`downloaded ${download.suggestedFilename()}`));
    page.on('dialog', async (dialog) => {
      this.#problems.push(`a ${dialog.type()} box: ${dialog.message()}`);
      await dialog.dismiss();
    });
  }

  /** From here on such problems are no problem. */
  expect(pattern) {
    this.#expected.push(pattern);
  }

  /** What the browser complained of so far. */
  problems() {
    return this.#problems.filter((problem) => !this.#expected.some((pattern) => pattern.test(problem)));
  }

  /** The element with this `data-testid`. */
  at(id) {
    return this.page.getByTestId(id);
  }

  /** Its text, blanks as one reads them. */
  async text(id) {
    return (await this.at(id).innerText()).replace(/\s+/g, ' ').trim();
  }

  async shows(id, pattern) {
    return until(`${id} shows ${pattern}`, async () => pattern.test(await this.text(id)), { told: () => this.text(id) });
  }

  /** The cookie, without the sign-in page. */
  async signIn(key, name = 'Ann') {
    const response = await this.page.request.post(`${this.base}/v1/sign-in`, { data: { key, name } });
    assert.equal(response.status(), 200, await response.text());
  }

  async open(path = '/') {
    await this.page.goto(this.base + path);
  }

  /** Connected, and showing the present. */
  async isLive() {
    await until('the page is connected', async () => (await this.at('connection-bar').getAttribute('data-line')) === 'live');
  }

  async openSessions() {
    await this.open('/');
    await this.isLive();
  }

  async openSession(session) {
    await this.open(`/sessions/${session}`);
    await this.isLive();
    await this.at('session-name').waitFor();
  }

  /** The row of a session in the list. */
  row(session) {
    return this.page.locator(`[data-testid=session-row][data-session-id="${session}"]`);
  }

  /** The row of a command in its session. */
  command(view) {
    return this.page.locator(`[data-testid=command-row][data-command-id="${view.command_id}"]`);
  }

  async commandIs(view, state) {
    const row = this.command(view);
    await until(`${view.command} is ${state}`, async () => (await row.getAttribute('data-state')) === state, { told: () => row.innerText() });
  }

  /** Shown in the middle, and it alone is marked as such. */
  async isShown(view) {
    const marked = () => this.page.locator('[data-testid=command-row][aria-current=true]').evaluateAll((rows) => rows.map((row) => row.dataset.commandId));
    await until(`${view.command} is shown`, async () => (await marked()).join() === view.command_id, { told: async () => `${await marked()} instead of ${view.command_id}` });
  }

  /** The lines in the terminal, wrapped ones joined. */
  async lines() {
    return this.at('output').evaluate((element) => {
      const buffer = element.glassboxTerminal.buffer.active;
      const lines = [];
      for (let at = 0; at < buffer.length; at += 1) {
        const line = buffer.getLine(at);
        const text = line.translateToString(true);
        if (line.isWrapped && lines.length > 0) lines[lines.length - 1] += text;
        else lines.push(text);
      }
      while (lines.length > 0 && lines[lines.length - 1] === '') lines.pop();
      return lines;
    });
  }

  /** Waits until a line of the output matches, and returns all lines. */
  async writes(pattern, options) {
    let lines = [];
    await until(
      `the output shows ${pattern}`,
      async () => {
        lines = await this.lines();
        return lines.some((line) => pattern.test(line));
      },
      { told: async () => (await this.lines()).slice(-5).join(' | '), ...options },
    );
    return lines;
  }

  /** Nothing is cut off at the side. */
  async fitsSideways() {
    const { wide, room } = await this.page.evaluate(() => ({ wide: document.documentElement.scrollWidth, room: window.innerWidth }));
    assert.ok(wide <= room, `the page is ${wide} px wide in a window of ${room} px (${this.page.url()})`);
  }

  /**
   * Scrolls through all of it, there and back, and looks for the longest task meanwhile. What the page itself does is the
   * same each time, what the machine does beside it is not: one of a few tries has to stay below the bar.
   */
  async scrollsFluidly(list) {
    const tries = [];
    while (tries.length < SCROLL_TRIES) {
      const longest = await list.evaluate(async (element, steps) => {
        let longest = 0;
        const note = (entries) => {
          for (const entry of entries) longest = Math.max(longest, entry.duration);
        };
        const observer = new PerformanceObserver((seen) => note(seen.getEntries()));
        observer.observe({ type: 'longtask' });
        const frame = () => new Promise(requestAnimationFrame);
        for (let step = -steps; step <= steps; step += 1) {
          element.scrollTop = element.scrollHeight * (1 - Math.abs(step) / steps);
          await frame();
        }
        note(observer.takeRecords());
        observer.disconnect();
        return longest;
      }, SCROLL_STEPS);
      if (longest <= LONGEST_TASK_MS) return;
      tries.push(longest);
    }
    assert.fail(`while scrolling, the longest tasks took ${tries.join(', ')} ms`);
  }

  /** What has the focus, in words for a failure. */
  async focus() {
    return this.page.evaluate(() => {
      const element = document.activeElement;
      return element?.dataset?.testid ?? element?.textContent?.trim().slice(0, 40) ?? null;
    });
  }
}
