// How the pages look, and that everybody can use them: screenshots, axe, small screens. Light and dark.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { NOT_SIGNED_IN } from './support/glass.mjs';
import { DESKTOP, house } from './support/house.mjs';
import { McpClient } from './support/mcp.mjs';
import { SCREENSHOTS } from './support/paths.mjs';
import { until } from './support/wait.mjs';

const check = house();

const WIDTHS = { 1440: 900, 768: 1024, 390: 844 };
const THEMES = ['light', 'dark'];
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** One line for each violation. */
async function violations(glass) {
  // By the debugger, not as a script of the page: its content policy would refuse that.
  if (!(await glass.page.evaluate(() => Boolean(window.axe)))) await glass.page.evaluate(axe);
  return glass.page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
    const shown = ({ html, any, all, none }) => `${html.slice(0, 200)} (${[...any, ...all, ...none].map(({ message }) => message).join('; ').slice(0, 240)})`;
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(shown).join(' | ')}`);
  });
}

/** Takes it in these sizes and both themes, looking for violations and for things cut off on the way. */
async function look(glass, name, widths = Object.keys(WIDTHS)) {
  mkdirSync(SCREENSHOTS, { recursive: true });
  const problems = [];
  for (const theme of THEMES) {
    await glass.page.emulateMedia({ colorScheme: theme });
    for (const width of widths) {
      const where = `${name}-${width}-${theme}`;
      await glass.page.setViewportSize({ width: Number(width), height: WIDTHS[width] });
      await glass.page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      await glass.page.screenshot({ path: join(SCREENSHOTS, `${where}.png`) });
      await glass.fitsSideways().catch((error) => problems.push(error.message));
      // Colours differ between themes, and what there is between sizes.
      if (width === '1440' || (width === '390' && theme === 'light')) problems.push(...(await violations(glass)).map((one) => `${where}: ${one}`));
    }
  }
  await glass.page.setViewportSize(DESKTOP);
  await glass.page.emulateMedia({ colorScheme: 'light' });
  return problems;
}

/** All at once, so that one run shows everything that is wrong. */
function assertNone(problems) {
  if (problems.length > 0) throw new Error(problems.join('\n'));
}

check('the sign-in page', async ({ tab }) => {
  const someone = await tab();
  someone.expect(NOT_SIGNED_IN);
  await someone.open('/');
  await someone.at('sign-in-key').waitFor();
  assertNone(await look(someone, 'sign-in'));
});

check('the list of sessions while it is empty', async ({ server, person }) => {
  const ann = await person({ key: server.keys.empty });
  await ann.openSessions();
  await ann.at('empty').waitFor();
  assertNone(await look(ann, 'sessions-empty'));
});

/** What one may see on a working day. */
async function someWork(agent) {
  const names = ['payments-fix', 'docs-site', 'etl-backfill', 'flaky-tests'];
  const [payments, docs, etl, flaky] = await Promise.all(names.map((name) => agent.makeSession(name, { metadata: { branch: 'main' } })));
  const ended = async (session, command) => agent.end(await agent.run(session, command));
  await Promise.all([
    ended(payments, 'ls -la /'),
    ended(docs, 'mkdir -p src && echo "built 1,204 modules"'),
    ended(flaky, `python3 -c 'raise SystemExit("2 failed, 118 passed")'`),
  ]);
  await ended(payments, 'make: no such thing here || true; exit 2');
  const colours = String.raw`for i in 30 31 32 33 34 35 36 37 90 91 92 93 94 95 96 97; do printf '\033[%dmcolour %d\033[0m  ' $i $i; done; printf '\n\033[1;32m✓\033[0m 118 passed, \033[1;31m2 failed\033[0m in 3.2 s\n'`;
  const tests = await agent.run(payments, `for i in $(seq 1 60); do echo "tests/test_pay.py::test_case_$i PASSED"; done; ${colours}; exec sleep 1000`);
  const loading = await agent.run(etl, 'printf "loading 42 %%"; exec sleep 1000');
  return { payments, tests, loading };
}

check('the list of sessions, the session page, its question and its dialogs', async ({ agent, person }) => {
  const problems = [];
  const { payments, tests, loading } = await someWork(agent);
  const ann = await person();
  await ann.openSessions();
  await until('the list is full', async () => (await ann.at('session-row').count()) === 4);
  problems.push(...(await look(ann, 'sessions')));
  await ann.at('account').click();
  problems.push(...(await look(ann, 'account-menu', ['1440'])));
  await ann.page.keyboard.press('Escape');
  await ann.at('new-session').click();
  problems.push(...(await look(ann, 'new-session', ['1440', '390'])));
  await ann.page.keyboard.press('Escape');
  await ann.page.keyboard.press('Control+k');
  await ann.at('palette-input').waitFor();
  problems.push(...(await look(ann, 'palette', ['1440', '390'])));
  await ann.page.keyboard.press('Escape');
  await ann.page.keyboard.press('?');
  await ann.page.locator('dialog[open]').waitFor();
  problems.push(...(await look(ann, 'help', ['1440', '390'])));
  await ann.page.keyboard.press('Escape');

  await ann.openSession(payments);
  await ann.writes(/118 passed/);
  problems.push(...(await look(ann, 'session')));
  await ann.at('kill').click();
  problems.push(...(await look(ann, 'kill-question', ['1440', '390'])));
  await ann.at('kill-confirm').click();
  await ann.commandIs(tests, 'killed');
  await ann.shows('kill-result', /nothing left/);
  problems.push(...(await look(ann, 'killed', ['1440', '390'])));
  await ann.at('delete-session').click();
  await ann.at('delete-confirm').waitFor();
  problems.push(...(await look(ann, 'delete-session', ['1440', '390'])));
  await agent.kill(loading);
  assertNone(problems);
});

/** A session of the person's own, with something to look at in its workspace. */
async function ownFiles(glass) {
  const post = async (path, data) => (await glass.page.request.post(`${glass.base}/v1/sessions${path}`, { data, headers: { origin: glass.base } })).json();
  const { session_id: session } = await post('', { name: 'payments-fix', profile: 'open', memory: '512m' });
  const python = [
    'from decimal import Decimal', '', '', 'class Refund:', '    """A part of a payment that goes back."""', '',
    '    def __init__(self, amount: Decimal, currency: str = "EUR"):', '        if amount <= 0:', '            raise ValueError("a refund is positive")',
    '        self.amount = amount  # in the currency\'s own units', '        self.currency = currency',
  ];
  const lines = (text) => text.map((line) => `'${line.replaceAll("'", `'\\''`)}'`).join(' ');
  const script = `mkdir -p src tests notes && printf '%s\\n' ${lines(python)} > src/refund.py && touch src/__init__.py tests/test_refund.py && printf '# Refunds\\n' > README.md && head -c 70000 /dev/urandom > fixture.bin`;
  const { command_id: id } = await post(`/${session}/commands`, { command: script });
  await until('the files are there', async () => (await (await glass.page.request.get(`${glass.base}/v1/sessions/${session}/commands/${id}?wait=10`)).json()).state === 'exited');
  return session;
}

check('the file browser, a file, what changed in it, an editor, and the question before a file goes', async ({ person }) => {
  const problems = [];
  const ann = await person();
  const session = await ownFiles(ann);
  const file = (path) => ann.page.locator(`[data-testid=file-row][data-path="/root/${path}"]`);
  await ann.openSession(session);
  await file('src').click();
  await file('src/refund.py').click();
  await until('the text is shown', async () => /class Refund/.test(await ann.at('file-text').textContent()));
  problems.push(...(await look(ann, 'file')));
  await ann.page.setViewportSize({ width: 390, height: WIDTHS[390] });
  await ann.page.getByRole('navigation', { name: 'Parts of the session' }).getByRole('button', { name: 'Files' }).click();
  await file('src').waitFor();
  problems.push(...(await look(ann, 'files')));
  const since = Date.now() / 1000;
  const jobs = [
    { job_id: 'job_1', kind: 'delete', path: 'old', name: 'node_modules/.cache', by: { kind: 'agent', name: 'claude-code 2.1' }, since: since - 14, done: 18_204, bytes: 0 },
    { job_id: 'job_2', kind: 'copy', path: 'data', name: 'data', to: 'backup', to_name: 'data-before-the-migration', by: { kind: 'human', name: 'Bob' }, since: since - 3, done: 12, bytes: 2_100_000 },
  ];
  // Real ones would be over before all pictures are taken.
  await ann.page.route(/\/fs\/jobs$/, (route) => route.fulfill({ json: { jobs } }));
  await ann.page.setViewportSize({ width: 390, height: WIDTHS[390] });
  await until('both are listed', async () => (await ann.at('file-job').count()) === 2);
  await ann.at('job-stop').first().click();
  problems.push(...(await look(ann, 'file-jobs', ['1440', '390'])));
  await ann.page.unroute(/\/fs\/jobs$/);
  await ann.at('job-stop-cancel').click();

  await ann.page.setViewportSize({ width: 390, height: WIDTHS[390] });
  await ann.page.getByRole('navigation', { name: 'Parts of the session' }).getByRole('button', { name: 'Output' }).click();
  await ann.at('file-edit').click();
  problems.push(...(await look(ann, 'file-editor', ['1440', '390'])));
  await ann.at('file-editor').fill((await ann.at('file-editor').inputValue()).replace('"EUR"', '"USD"'));
  await ann.at('file-save').click();
  await ann.shows('toasts', /saved/);
  await file('fixture.bin').click();
  await ann.at('hex-note').waitFor();
  problems.push(...(await look(ann, 'file-hex', ['1440', '390'])));
  await ann.at('file-delete').click();
  await ann.at('file-delete-confirm').waitFor();
  problems.push(...(await look(ann, 'file-delete', ['1440', '390'])));
  assertNone(problems);
});

check('the history: empty, a search, ended sessions, the time line, and the question before a removal', async ({ server, agent, person }) => {
  const problems = [];
  const nobody = await person({ key: server.keys.empty });
  await nobody.open('/history');
  await nobody.at('history-empty').waitFor();
  problems.push(...(await look(nobody, 'history-empty')));

  const names = ['payments-fix', 'docs-site', 'etl-backfill'];
  const sessions = await Promise.all(names.map((name) => agent.makeSession(name)));
  const tests = `for i in $(seq 1 40); do echo "tests/test_pay.py::test_case_$i PASSED"; done; echo 'E   PermissionError: [Errno 13] Permission denied: /srv/ledger'; echo '1 failed, 40 passed in 2.3 s'; exit 1`;
  const failing = await agent.end(await agent.run(sessions[0], tests));
  await agent.end(await agent.run(sessions[0], 'ls -l /srv || true'));
  await agent.kill(await agent.run(sessions[0], 'exec sleep 1000'));
  await agent.end(await agent.run(sessions[1], 'cat /etc/shadow || echo "permission denied, as it should be"'));
  await agent.end(await agent.run(sessions[2], 'echo loaded 1,204 rows'));
  await until('it is found', async () => (await agent.done('GET', '/v1/search?q=permission+denied')).hits.length > 2);
  await agent.deleteSession(sessions[2]);
  await agent.deleteSession(sessions[0]);

  const ann = await person();
  await ann.open('/history?q=permission%20denied');
  await ann.at('search-hit').first().waitFor();
  await ann.page.getByText('kept for').waitFor();
  problems.push(...(await look(ann, 'search')));
  await ann.open('/history');
  await until('both are listed', async () => (await ann.at('history-row').count()) >= 2);
  problems.push(...(await look(ann, 'history')));
  await ann.page.keyboard.press('Control+k');
  await ann.at('palette-input').fill('permission');
  problems.push(...(await look(ann, 'palette-search', ['1440', '390'])));
  await ann.page.keyboard.press('Escape');

  await ann.open(`/sessions/${sessions[0]}/commands/${failing.command_id}?at=1500`);
  await ann.page.locator('.linked-line').waitFor();
  await ann.page.getByRole('button', { name: 'Time line' }).click();
  await ann.at('timeline').getByText('The session ended').waitFor();
  problems.push(...(await look(ann, 'time-line', ['1440', '768'])));
  await ann.page.setViewportSize({ width: 390, height: WIDTHS[390] });
  await ann.page.getByRole('navigation', { name: 'Parts of the session' }).getByRole('button', { name: 'Info' }).click();
  problems.push(...(await look(ann, 'time-line', ['390'])));
  await ann.page.getByRole('button', { name: 'Facts' }).click();
  problems.push(...(await look(ann, 'ended-facts', ['390', '1440'])));
  await ann.at('purge-session').click();
  await ann.page.getByText('Left alone').waitFor();
  problems.push(...(await look(ann, 'purge', ['1440', '390'])));
  assertNone(problems);
});

check('a phone: one column, a bar at the bottom, and a kill by thumb', async ({ agent, person }) => {
  const session = await agent.makeSession('on the phone');
  const command = await agent.run(session, 'echo hello from the sandbox; exec sleep 1000');
  const ann = await person({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await ann.openSession(session);
  const bar = ann.page.getByRole('navigation', { name: 'Parts of the session' });
  const parts = { Commands: ann.command(command), Output: ann.at('output'), Info: ann.page.getByRole('heading', { name: 'Limits' }) };
  for (const [name, shown] of Object.entries(parts)) {
    await bar.getByRole('button', { name }).tap();
    await shown.waitFor();
    for (const [other, hidden] of Object.entries(parts)) {
      if (other !== name) assert.equal(await hidden.isVisible(), false, `${other} is hidden behind ${name}`);
    }
    await ann.fitsSideways();
    await ann.page.screenshot({ path: join(SCREENSHOTS, `phone-${name.toLowerCase()}.png`) });
  }
  await bar.getByRole('button', { name: 'Commands' }).tap();
  await ann.command(command).tap();
  await ann.writes(/^hello from the sandbox$/);
  const small = await ann.page.locator('button:visible, a:visible').evaluateAll((all) => all
    // The way to skip to the content is above the page until the keyboard reaches it.
    .filter((one) => one.getBoundingClientRect().bottom > 0 && one.getBoundingClientRect().height < 43.5)
    .map((one) => `${one.textContent.trim() || one.ariaLabel} (${Math.round(one.getBoundingClientRect().height)} px)`));
  await ann.at('kill').tap();
  await ann.at('kill-confirm').tap();
  await ann.commandIs(command, 'killed');
  await ann.shows('kill-result', /nothing left · by Ann$/);
  assert.deepEqual(small, [], 'everything to touch is 44 px high');
});

check('two agents that share a sandbox, in the list and on its page', async ({ agent, person }) => {
  const problems = [];
  const versions = { 'claude-code': '2.1.0', codex: '0.46.0' };
  const clients = await Promise.all(Object.entries(versions).map(([name, version]) => McpClient.begin(agent, { name, version, workspace: 'payments' })));
  for (const client of clients) await client.call('shell_exec', { command: 'echo "tests/test_pay.py::test_refund PASSED"' });
  await clients[0].call('shell_exec', { command: 'for i in $(seq 40); do echo "tests/test_pay.py::test_case_$i PASSED"; done; exec sleep 1000', timeout: 0 });
  const [session] = (await agent.sessions()).filter(({ metadata }) => metadata.mcp_workspace === 'payments');
  const ann = await person();
  await ann.openSessions();
  await ann.at('row-clients').waitFor();
  problems.push(...(await look(ann, 'together-list')));
  await ann.openSession(session.session_id);
  await ann.writes(/test_case_40 PASSED/);
  await ann.at('clients').waitFor();
  problems.push(...(await look(ann, 'together')));
  await ann.page.getByRole('button', { name: 'Info' }).first().click();
  await ann.at('clients-note').waitFor();
  problems.push(...(await look(ann, 'together-info', ['1440'])));
  await ann.page.setViewportSize({ width: 390, height: WIDTHS[390] });
  await ann.page.getByRole('navigation', { name: 'Parts of the session' }).getByRole('button', { name: 'Info' }).click();
  await ann.at('clients-note').waitFor();
  problems.push(...(await look(ann, 'together-info', ['390'])));
  await agent.kill(session.latest_command);
  assertNone(problems);
});

check('what a model was told', async ({ agent, person }) => {
  const session = await agent.makeSession('told');
  const tool = (name, input) => agent.done('POST', `/v1/sessions/${session}/tools/${name}`, input);
  await tool('shell_exec', { command: 'for i in $(seq 12); do echo "test_payments.py::test_refund[$i] PASSED"; done; read -t 0.5 x < <(sleep 1); exit 1', timeout: 0 });
  await tool('shell_wait', {});
  const ann = await person();
  await ann.openSession(session);
  await ann.at('told').click();
  await until('both answers are shown', async () => (await ann.at('told-text').count()) === 2);
  assertNone(await look(ann, 'told'));
});
