// The list of sessions: it changes by itself; a person makes and deletes them; the keyboard does everything.
import assert from 'node:assert/strict';

import { house } from './support/house.mjs';
import { until } from './support/wait.mjs';

const check = house();

check('an empty list says what a session is, and three ways to get one', async ({ server, person }) => {
  const ann = await person({ key: server.keys.empty });
  await ann.openSessions();
  await ann.shows('empty', /A session is one sandbox/);
  assert.equal(await ann.at('empty').locator('pre').count(), 3);
  assert.match(await ann.text('empty'), new RegExp(`${server.base}/v1/sessions`), 'with the address of this very server');
});

check('what an agent does shows in the list by itself: made, working, failed, killed, deleted', async ({ agent, person }) => {
  const ann = await person();
  await ann.openSessions();
  await ann.page.evaluate(() => {
    window.sameDocument = true;
  });
  const session = await agent.makeSession('docs-site');
  const row = ann.row(session);
  await row.waitFor();
  const shows = (pattern) => until(`the row shows ${pattern}`, async () => pattern.test((await row.innerText()).replace(/\s+/g, ' ')), { told: () => row.innerText() });
  await shows(/docs-site .*no command yet/);

  const failing = await agent.run(session, 'echo cannot find it; exit 3');
  await agent.end(failing);
  await shows(/exit 3 .*cannot find it/);

  const hanging = await agent.run(session, 'echo waiting for godot; exec sleep 1000');
  await shows(/running docs-site .*exec sleep 1000 .*\d+ s .*waiting for godot/);
  await agent.kill(hanging);
  await shows(/killed/);

  await agent.deleteSession(session);
  await until('the session is not shown as alive', async () => (await row.count()) === 0 || /ended/.test(await row.innerText()));
  assert.equal(await ann.page.evaluate(() => window.sameDocument), true, 'the page was not loaded again');
});

check('a person makes a session in a dialog, and deletes it in one that names what goes', async ({ server, person }) => {
  const ann = await person();
  await ann.openSessions();
  const dialog = ann.page.locator('dialog[open]');
  const keepsFocus = async () => {
    for (let press = 0; press < 12; press += 1) {
      await ann.page.keyboard.press('Tab');
      const inside = await ann.page.evaluate(() => document.activeElement === document.body || document.activeElement.closest('dialog[open]') !== null);
      assert.ok(inside, `Tab left the dialog for ${await ann.focus()}`);
    }
  };

  await ann.at('new-session').focus();
  await ann.page.keyboard.press('Enter');
  await until('the dialog has the focus in its first field', async () => (await ann.focus()) === 'new-session-name');
  await keepsFocus();
  await ann.page.keyboard.press('Escape');
  await until('Escape closes it', async () => (await dialog.count()) === 0);
  await until('the focus is back', async () => (await ann.focus()) === 'new-session');

  await ann.page.keyboard.press('Enter');
  await ann.at('new-session-name').fill('by hand');
  await ann.at('new-session-memory').selectOption('512m');
  await ann.page.keyboard.press('Tab');
  await ann.at('new-session-submit').click();
  await ann.shows('session-name', /^by hand$/);
  const session = new URL(ann.page.url()).pathname.split('/').pop();
  await ann.at('run-input').fill('exec sleep 4242');
  await ann.at('run-submit').click();
  await until('it runs', () => ann.page.locator('[data-testid=command-row][data-state=running]').isVisible());

  await ann.at('delete-session').click();
  const text = async () => (await dialog.innerText()).replace(/\s+/g, ' ');
  await until('it names what goes', async () => /Delete by hand\?.*every file in it.*1 running command is killed: exec sleep 4242/.test(await text()), { told: text });
  await keepsFocus();
  await ann.page.keyboard.press('Escape');
  await until('Escape closes it', async () => (await dialog.count()) === 0);
  await until('the focus is back', async () => (await ann.focus()) === 'delete-session');
  assert.equal((await server.operator().ask('GET', `/v1/sessions/${session}`)).json.state, 'ready', 'Escape deletes nothing');

  // A question after changes of the files, under way when the sandbox goes.
  ann.expect(/status of (404|503)/);
  await ann.at('delete-session').click();
  await ann.at('delete-confirm').click();
  await ann.shows('toasts', /by hand was deleted/);
  assert.equal(new URL(ann.page.url()).pathname, '/');
  assert.ok(!(await server.operator().sessions()).some((one) => one.session_id === session));
});

check('the keyboard reaches everything: rows, filter, palette, help', async ({ agent, person }) => {
  const [first, second] = await Promise.all([agent.makeSession('alpha'), agent.makeSession('beta')]);
  const ann = await person();
  await ann.openSessions();
  for (const session of [first, second]) await ann.row(session).waitFor();
  const { keyboard } = ann.page;
  const focused = () => ann.page.evaluate(() => document.activeElement.dataset.sessionId ?? null);

  await keyboard.press('j');
  const top = await until('j goes to a row', focused);
  await keyboard.press('j');
  const below = await until('and to the next', async () => (await focused()) !== top && focused());
  await keyboard.press('k');
  await until('k goes back', async () => (await focused()) === top);
  await keyboard.press('j');
  await keyboard.press('Enter');
  await until('Enter opens it', () => new URL(ann.page.url()).pathname === `/sessions/${below}`);
  await ann.at('session-name').waitFor();

  await keyboard.press('Control+k');
  await until('the palette has the focus', async () => (await ann.focus()) === 'palette-input');
  await keyboard.type('all sess');
  await keyboard.press('Enter');
  await until('back at the list', () => new URL(ann.page.url()).pathname === '/');
  await keyboard.press('Control+k');
  await until('the palette has the focus', async () => (await ann.focus()) === 'palette-input');
  await keyboard.press('Escape');
  await until('Escape closes it', async () => (await ann.page.locator('dialog[open]').count()) === 0);

  await keyboard.press('/');
  await until('the filter has the focus', async () => (await ann.focus()) === 'filter');
  await keyboard.type('alph');
  await until('only what matches is left', async () => (await ann.at('session-row').count()) === 1 && ann.row(first).isVisible());
  await keyboard.type('x');
  await until('nothing matches', () => ann.page.getByText('No session matches.').isVisible());
  await keyboard.press('Escape');
  await ann.row(second).waitFor();

  await keyboard.press('?');
  await until('the list of keys opens', () => ann.page.locator('dialog[open]').getByText('kill the shown command').isVisible());
  await keyboard.press('Escape');
  await until('and closes', async () => (await ann.page.locator('dialog[open]').count()) === 0);
});

check('an address of a session that is not there says so and leads back', async ({ person }) => {
  const ann = await person();
  ann.expect(/status of 404/);
  await ann.open('/sessions/sbx_aaaaaaaaaaaaaaaaaaaa');
  await ann.shows('missing-session', /No such session/);
  await ann.at('missing-session').getByRole('link', { name: 'All sessions' }).click();
  await until('back at the list', () => new URL(ann.page.url()).pathname === '/');
});
