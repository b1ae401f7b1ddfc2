// The history: finding what was written, opening it at its line, what happened when, and removing it for good.
import assert from 'node:assert/strict';

import { FILES_GONE } from './support/glass.mjs';
import { house } from './support/house.mjs';
import { until } from './support/wait.mjs';

const check = house();

const hit = (glass) => glass.at('search-hit');
const row = (glass, session) => glass.page.locator(`[data-testid=history-row][data-session-id="${session}"]`);
const path = (glass) => new URL(glass.page.url()).pathname;

/** Words are collected a moment after they were written, those of the command before those of its output. */
async function isFound(agent, words) {
  const query = encodeURIComponent(words);
  await until(`${words} is found`, async () => (await agent.done('GET', `/v1/search?q=${query}`)).hits.some((hit) => hit.found_in === 'output'));
}

async function search(glass, words) {
  await glass.at('history-search').fill(words);
  await glass.page.keyboard.press('Enter');
  await until('it is in the address', () => new URL(glass.page.url()).searchParams.get('q') === words);
}

/** The text of the line that the link marked, as far as it is on the screen. */
async function linkedLine(glass) {
  return glass.at('output').evaluate((element) => {
    const mark = element.querySelector('.linked-line')?.getBoundingClientRect();
    const screen = element.querySelector('.xterm-screen').getBoundingClientRect();
    if (!mark || mark.height === 0 || mark.top < screen.top - 1 || mark.bottom > screen.bottom + 1) return null;
    const terminal = element.glassboxTerminal;
    const at = Math.round((mark.top - screen.top) / (screen.height / terminal.rows));
    return terminal.buffer.active.getLine(terminal.buffer.active.viewportY + at).translateToString(true);
  });
}

/** The sentences of the time line. */
const timeLine = (glass) => glass.at('timeline').locator('li').evaluateAll((all) => all.map((one) => one.querySelector('.word').textContent));

async function tells(glass, pattern) {
  await until(`the time line tells ${pattern}`, async () => (await timeLine(glass)).some((line) => pattern.test(line)), { told: async () => (await timeLine(glass)).join(' | ') });
}

async function openTimeLine(glass) {
  await glass.page.getByRole('button', { name: 'Info' }).first().click();
  await glass.page.getByRole('button', { name: 'Time line' }).click();
}

check('a word of an output is found, and its link opens at that line, of a live session and of an ended one', async ({ agent, person }) => {
  const session = await agent.makeSession('flux');
  const lines = (name) => `for i in $(seq 1 4000); do echo "${name} $i"; done`;
  await agent.end(await agent.run(session, 'echo nothing of interest'));
  await agent.run(session, `${lines('before')}; echo "the capacitor overheated"; ${lines('after')}; exec sleep 1000`);
  await isFound(agent, 'capacitor overheated');

  const ann = await person();
  await ann.open('/history');
  await search(ann, 'capacitor');
  await hit(ann).first().waitFor();
  const output = hit(ann).filter({ hasText: 'the capacitor overheated' }).filter({ hasText: 'live · line 4,001' });
  assert.equal(await output.locator('mark').innerText(), 'capacitor');
  await ann.shows('search-status', /^\d places?$/);
  await output.click();
  await until('the session is open', () => path(ann) === `/sessions/${session}`);
  await until('the line is marked, on the screen', async () => (await linkedLine(ann)) === 'the capacitor overheated', { told: () => linkedLine(ann) });
  const link = ann.page.url();

  ann.expect(FILES_GONE);
  await agent.deleteSession(session);
  await ann.page.goto(link);
  await until('the line is there after the end', async () => (await linkedLine(ann)) === 'the capacitor overheated', { told: () => linkedLine(ann) });
  await ann.open('/history');
  await search(ann, 'capacitor');
  await hit(ann).filter({ hasText: 'ended · line 4,001' }).waitFor();
});

check('what was found stays text, and what was not found is said', async ({ agent, person, session: shared }) => {
  const session = await shared();
  await agent.end(await agent.run(session, `printf '%s\\n' '<img src=x onerror=window.broken=1> \u202etrebuchet'`));
  await isFound(agent, 'trebuchet');
  const ann = await person();
  await ann.open('/history?q=trebuchet');
  const found = hit(ann).filter({ hasText: 'line 1' });
  await found.waitFor();
  assert.match(await found.innerText(), /<img src=x onerror=window\.broken=1> .*trebuchet/);
  assert.match(await found.innerText(), /⟨U\+202E⟩|u\{202e\}/, 'what turns the text around is shown');
  assert.equal(await ann.page.evaluate(() => window.broken), undefined, 'no script ran');

  await search(ann, 'quetzalcoatl');
  await ann.shows('search-status', /^Nothing found\./);
  assert.equal(await hit(ann).count(), 0);

  // The line to the server breaks while someone searches.
  ann.expect(/net::ERR_FAILED/);
  await ann.page.route('**/v1/search?*', (route) => route.abort());
  await search(ann, 'trebuchet');
  const again = ann.page.getByRole('button', { name: 'Try again' });
  await again.waitFor();
  await ann.page.getByText('The server cannot be reached.').waitFor();
  await ann.page.unroute('**/v1/search?*');
  await again.click();
  await hit(ann).first().waitFor();
});

check('the time line tells what happened, grows by itself, and leads to each command', async ({ server, agent, person }) => {
  const session = await agent.makeSession('a story');
  const first = await agent.end(await agent.run(session, 'echo one; exit 3'));
  const ann = await person();
  await ann.openSession(session);
  await openTimeLine(ann);
  await tells(ann, /^Made by agent of the browser tests$/);
  await tells(ann, /^agent of the browser tests ran 1: echo one; exit 3$/);
  await tells(ann, /^1 ended: exit 3$/);

  const second = await agent.run(session, 'echo two; exec sleep 1000');
  await tells(ann, /ran 2: echo two/);
  await ann.isShown(second);
  await ann.at('kill').click();
  await ann.at('kill-confirm').click();
  await tells(ann, /^2 ended: killed, SIGTERM after .*, nothing left · by Ann$/);

  await ann.at('timeline').getByText('1 ended: exit 3').click();
  await ann.isShown(first);
  assert.match((await ann.writes(/^one$/)).join(), /one/);

  ann.expect(FILES_GONE);
  await server.operator().deleteSession(session);
  await tells(ann, /^The session ended: deleted by /);
  const whole = await timeLine(ann);
  await ann.page.reload();
  // Of a session that is over there are only facts to show.
  await ann.page.getByRole('button', { name: 'Time line' }).click();
  await until('the same is told after the end', async () => (await timeLine(ann)).join() === whole.join(), { told: () => timeLine(ann) });
});

check('the time line of a tab in the background asks for nothing, and catches up when it is shown again', async ({ agent, person }) => {
  const session = await agent.makeSession('in the background');
  await agent.end(await agent.run(session, 'echo one'));
  const [ann, ben] = [await person(), await person({ name: 'Ben' })];
  for (const glass of [ann, ben]) {
    await glass.openSession(session);
    await openTimeLine(glass);
    await tells(glass, /^1 ended: exit 0$/);
  }
  const isHidden = (hidden) => ann.page.evaluate((hidden) => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
    Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => (hidden ? 'hidden' : 'visible') });
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
  let asked = 0;
  ann.page.on('request', (request) => {
    if (request.url().includes('/timeline?')) asked += 1;
  });
  await isHidden(true);
  const second = await agent.end(await agent.run(session, 'echo two; exit 2'));
  await ann.commandIs(second, 'exited');
  await tells(ben, /^2 ended: exit 2$/);
  // Twice what a tab that is looked at takes.
  const third = await agent.end(await agent.run(session, 'echo three; exit 3'));
  await ann.commandIs(third, 'exited');
  await tells(ben, /^3 ended: exit 3$/);
  assert.equal(asked, 0);
  await isHidden(false);
  await tells(ann, /^3 ended: exit 3$/);
});

check('a time line whose end could not be asked for tries again, and tells nothing twice', async ({ agent, person }) => {
  const session = await agent.makeSession('a line with a hole');
  await agent.end(await agent.run(session, 'echo one'));
  const ann = await person();
  ann.expect(/net::ERR_FAILED/);
  await ann.openSession(session);
  await openTimeLine(ann);
  await tells(ann, /^1 ended: exit 0$/);
  await ann.page.route('**/timeline?*', (route) => route.abort());
  await agent.end(await agent.run(session, 'echo two; exit 2'));
  const again = ann.page.getByRole('button', { name: 'Try again' });
  await again.waitFor();
  await ann.page.unroute('**/timeline?*');
  await again.click();
  await tells(ann, /^2 ended: exit 2$/);
  const told = await timeLine(ann);
  assert.equal(new Set(told).size, told.length, told.join(' | '));
});

check('ended sessions are listed, the newest end first, narrowed by what is asked, a page at a time', async ({ agent, person }) => {
  const names = ['first to end', 'second to end', 'third to end'];
  const sessions = await Promise.all(names.map((name) => agent.makeSession(name)));
  await agent.end(await agent.run(sessions[1], 'echo hello; exit 1'));
  for (const session of sessions) await agent.deleteSession(session);
  const ann = await person();
  // Pages of one, so that three are three pages.
  await ann.page.route('**/v1/history?*', (route) => route.continue({ url: route.request().url().replace('limit=50', 'limit=1') }));
  await ann.openSessions();
  await ann.page.getByRole('link', { name: 'Ended' }).click();
  const listed = () => ann.at('history-row').evaluateAll((rows) => rows.map((one) => one.dataset.sessionId));
  const shows = (wanted) => until(`${wanted.length} are listed`, async () => (await listed()).join() === wanted.join(), { told: listed });
  await shows([sessions[2]]);
  const older = ann.page.getByRole('button', { name: 'Older sessions' });
  await older.click();
  await shows([sessions[2], sessions[1]]);
  assert.match(await row(ann, sessions[1]).innerText(), /deleted[^]*second to end[^]*echo hello; exit 1[^]*1 command · 1 failed · 6 B of output/);
  await older.click();
  await until('the third page is there', async () => (await listed())[2] === sessions[0], { told: listed });

  await ann.page.unroute('**/v1/history?*');
  await ann.at('history-reason').selectOption('expired');
  await ann.at('history-none').waitFor();
  assert.equal(new URL(ann.page.url()).search, '?state=expired');
  await ann.page.goBack();
  await row(ann, sessions[2]).waitFor();
  await ann.at('history-maker').fill('nobody of this name');
  await ann.page.keyboard.press('Enter');
  await ann.at('history-none').waitFor();
  await ann.open('/history?q=second%20to');
  await row(ann, sessions[1]).waitFor();
  assert.deepEqual(await listed(), [sessions[1]]);

  await row(ann, sessions[1]).click();
  await ann.shows('session-name', /^second to end$/);
  await ann.writes(/^hello$/);
});

check('an operator removes an ended session for good: the dialog says what goes, and nothing of it is left', async ({ server, agent, person }) => {
  const session = await agent.makeSession('to be forgotten');
  const command = await agent.end(await agent.run(session, 'echo the xylophone is out of tune'));
  await isFound(agent, 'xylophone');
  await agent.deleteSession(session);
  const eve = await person({ role: 'viewer', name: 'Eve' });
  await eve.openSession(session);
  await eve.writes(/^the xylophone/);
  assert.equal(await eve.at('purge-session').count(), 0, 'whoever watches removes nothing');

  const ann = await person();
  await ann.openSession(session);
  assert.equal(await ann.at('delete-session').count(), 0);
  await ann.at('purge-session').click();
  const dialog = ann.page.locator('dialog[open]');
  await until('the dialog says what goes', async () => /Remove to be forgotten for good\?[^]*1 command, and all that it wrote: 29 B[^]*a search finds of it[^]*no way back/.test(await dialog.innerText()), { told: () => dialog.innerText() });
  await ann.page.keyboard.press('Escape');
  await until('Escape removes nothing', async () => (await dialog.count()) === 0);
  assert.equal((await agent.ask('GET', `/v1/history/${session}`)).status, 200);
  await ann.at('purge-session').click();
  await ann.at('purge-confirm').click();
  await ann.shows('toasts', /to be forgotten was removed for good: 1 command, 29 B of output\./);
  await until('the history is open', () => path(ann) === '/history');
  await until('it is not in it', async () => (await row(ann, session).count()) === 0 && !(await ann.page.locator('.skeleton').isVisible()));
  await search(ann, 'xylophone');
  await ann.shows('search-status', /^Nothing found\./);
  assert.equal((await agent.ask('GET', `/v1/history/${session}`)).status, 404);

  for (const glass of [ann, eve]) {
    glass.expect(/status of 404/);
    await glass.open(`/sessions/${session}/commands/${command.command_id}?at=4`);
    await glass.shows('missing-session', /removed for good/);
  }
});

check('the dialog of a removal says when it does not know how much goes, and reads it again', async ({ agent, person }) => {
  const session = await agent.makeSession('unread');
  await agent.end(await agent.run(session, 'echo twelve bytes'));
  await agent.deleteSession(session);
  const ann = await person();
  ann.expect(/net::ERR_FAILED/);
  const record = new RegExp(`/v1/history/${session}$`);
  // The first of them is the session itself.
  let asked = 0;
  await ann.page.route(record, (route) => ((asked += 1) === 1 ? route.continue() : route.abort()));
  await ann.openSession(session);
  await until('the record was asked for', () => asked > 1);
  await ann.at('purge-session').click();
  const dialog = ann.page.locator('dialog[open]');
  await until('the dialog says what it does not know', async () => /1 command, and all that it wrote\. How much that is could not be read: The server cannot be reached\./.test(await dialog.innerText()), { told: () => dialog.innerText() });
  await ann.page.unroute(record);
  await dialog.getByRole('button', { name: 'Read it again' }).click();
  await until('now it knows', async () => /all that it wrote: 13 B/.test(await dialog.innerText()), { told: () => dialog.innerText() });
  assert.equal(await dialog.getByRole('button', { name: 'Read it again' }).count(), 0);
});

check('the keyboard does it: h, a search, a row; and the palette seeks everywhere', async ({ agent, person, session: shared }) => {
  const session = await shared();
  await agent.end(await agent.run(session, 'echo a marmalade of words'));
  await isFound(agent, 'marmalade');
  const ann = await person();
  await ann.openSessions();
  const { keyboard } = ann.page;
  await keyboard.press('h');
  await until('the history is open', () => path(ann) === '/history');
  await ann.at('history-search').waitFor();
  await keyboard.press('/');
  await until('the search has the focus', async () => (await ann.focus()) === 'history-search');
  await keyboard.type('"marmalade of words"');
  await keyboard.press('Enter');
  await hit(ann).first().waitFor();
  await until('letters are letters while it has the focus', async () => (await ann.focus()) === 'history-search');
  await ann.at('history-search').blur();
  await keyboard.press('j');
  await until('j goes to what was found', async () => (await ann.focus()) === 'search-hit');
  await keyboard.press('Enter');
  await until('Enter opens it', () => path(ann) === `/sessions/${session}`);
  await ann.at('session-name').waitFor();
  await ann.page.goBack();
  await hit(ann).first().waitFor();

  await ann.openSessions();
  await keyboard.press('Control+k');
  await until('the palette has the focus', async () => (await ann.focus()) === 'palette-input');
  await keyboard.type('marmalade');
  await keyboard.press('ArrowUp');
  await keyboard.press('Enter');
  await until('it was sought', () => path(ann) === '/history' && new URL(ann.page.url()).searchParams.get('q') === 'marmalade');
  await hit(ann).first().waitFor();
});

check('an empty history says what will be in it', async ({ server, person }) => {
  const ann = await person({ key: server.keys.empty });
  await ann.openSessions();
  await ann.at('to-history').click();
  await ann.shows('history-empty', /No session has ended yet\. .*every command, what it wrote, and the time line/);
});
