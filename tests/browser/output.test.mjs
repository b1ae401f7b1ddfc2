// Output may be endless, and it may be hostile.
import assert from 'node:assert/strict';

import { house } from './support/house.mjs';
import { until } from './support/wait.mjs';

const check = house();

/** A person notices what is slower. */
const RESPONSIVE_MS = 2_000;
/** From the click to the verified end, on a loaded machine. */
const KILL_UNDER_FLOOD_MS = 10_000;

async function roundTrip(glass) {
  const begun = Date.now();
  await glass.page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
  return Date.now() - begun;
}

check('a flood is shown while the page stays responsive, and what its log does not hold is named where it is missing', async ({ agent, person, session: shared }) => {
  const session = await shared();
  const ann = await person();
  await ann.openSession(session);
  const command = await agent.run(session, 'head -c 200M /dev/urandom | base64; echo the end');
  await ann.isShown(command);
  let slowest = 0;
  await until('the flood is over', async () => {
    slowest = Math.max(slowest, await roundTrip(ann));
    return (await ann.command(command).getAttribute('data-state')) === 'exited';
  }, { deadline: 60_000 });
  await ann.writes(/^the end$/);
  assert.ok(slowest < RESPONSIVE_MS, `the page took ${slowest} ms to answer`);
  await ann.shows('status', /28\d MB/);
  // Whoever followed fast enough missed nothing. Read again from its start, the log has a hole by now.
  await agent.end(command);
  await ann.page.reload();
  await ann.shows('earlier-note', /^28\d MB before this not shown/);
  await ann.at('earlier-note').getByRole('button', { name: 'Load from the start' }).click();
  await ann.shows('gap-note', /^2\d\d MB left out where the output says so/);
  await ann.writes(/^the end$/);
});

check('a kill is effective while the command floods', async ({ agent, person, session: shared }) => {
  const session = await shared();
  const ann = await person();
  await ann.openSession(session);
  const command = await agent.run(session, 'yes');
  await ann.isShown(command);
  await ann.writes(/^y$/);
  await until('it floods', async () => (await agent.command(command)).output_bytes > 20_000_000);
  await ann.at('kill').click();
  const begun = Date.now();
  await ann.at('kill-confirm').click();
  await ann.commandIs(command, 'killed');
  const took = Date.now() - begun;
  assert.ok(took < KILL_UNDER_FLOOD_MS, `the kill took ${took} ms`);
  await ann.shows('kill-result', /^killed, SIG(TERM|PIPE) after [\d.]+ m?s, nothing left · by Ann$/);
});

check('scrolled up, new lines do not move what is read; a button leads back to live', async ({ agent, person, session: shared }) => {
  const session = await shared();
  const command = await agent.run(session, 'seq 1 500; while read -t 1 x < <(sleep 2) || true; do echo more; done');
  const ann = await person();
  await ann.openSession(session);
  await ann.writes(/^more$/);
  await ann.at('output').locator('.xterm-screen').hover();
  await ann.page.mouse.wheel(0, -3000);
  const top = () => ann.at('output').evaluate((element) => element.glassboxTerminal.buffer.active.viewportY);
  await ann.shows('jump-to-live', /jump to live/);
  const read = await top();
  await ann.shows('jump-to-live', /^\d+ new lines?, jump to live$/);
  assert.equal(await top(), read, 'the lines stay where they are');
  await ann.at('jump-to-live').click();
  await until('the button is gone', async () => (await ann.at('jump-to-live').count()) === 0);
  await agent.kill(command);
});

check('output acts on nothing: not on the clipboard, the title, links or the page', async ({ server, agent, person }) => {
  const session = await agent.makeSession('hostile');
  const ann = await person();
  await ann.page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: server.base });
  await ann.openSession(session);
  await ann.page.evaluate(() => navigator.clipboard.writeText('untouched'));
  const command = await agent.run(session, [
    // Clipboard, by OSC 52, ended by BEL and by ST.
    String.raw`printf '\033]52;c;c3RvbGVu\a\033]52;p;c3RvbGVu\033\\'`,
    // Title and icon name, with markup and with controls in it.
    String.raw`printf '\033]0;<img src=x onerror=hacked()>pwned\a\033]2;pwned\a\033]1;pwned\a'`,
    String.raw`printf '\033]8;;javascript:window.hacked=1\033\\bad link\033]8;;\033\\\n'`,
    String.raw`printf '\033]8;;https://example.com/real\033\\https://example.org/shown\033]8;;\033\\\n'`,
    // Questions that a terminal would answer by typing; window operations; a bell.
    String.raw`printf '\033[6n\033[c\033[21t\033[8;5;5t\033[2t\a\n'`,
    `echo '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'`,
    'echo done',
  ].join('; '));
  await ann.isShown(command);
  const lines = await ann.writes(/^done$/);
  assert.ok(lines.includes('<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'), 'markup is shown as it was written');
  assert.match(await ann.page.title(), /hostile/);
  assert.doesNotMatch(await ann.page.title(), /pwned/);
  assert.equal(await ann.page.evaluate(() => navigator.clipboard.readText()), 'untouched');

  const clickOn = async (text) => {
    const row = (await ann.lines()).findIndex((line) => line.includes(text));
    const { cell, offset } = await ann.at('output').evaluate((element) => {
      const terminal = element.glassboxTerminal;
      const box = element.querySelector('.xterm-screen').getBoundingClientRect();
      return { cell: { width: box.width / terminal.cols, height: box.height / terminal.rows, left: box.left, top: box.top }, offset: terminal.buffer.active.viewportY };
    });
    const [x, y] = [cell.left + cell.width * 4, cell.top + cell.height * (row - offset + 0.5)];
    await ann.page.mouse.move(x - 3, y);
    await ann.page.mouse.move(x, y);
    // xterm.js looks for links when the pointer rests; a frame later it has.
    await roundTrip(ann);
    await roundTrip(ann);
    await ann.page.mouse.click(x, y);
  };
  await clickOn('bad link');
  await clickOn('https://example.org/shown');
  await ann.shows('link-note', /^This link leads to https:\/\/example\.com\/real$/);
  assert.equal(new URL(ann.page.url()).origin, server.base, 'nothing was opened');
  assert.equal(ann.page.context().pages().length, 1);
  assert.equal(await ann.page.evaluate(() => window.hacked), undefined);
});

check('names and commands are text, whatever they hold', async ({ server, agent, person }) => {
  const name = '<img src=x onerror="window.hacked=1">';
  const session = await agent.makeSession(name);
  const text = `: '<script>window.hacked=1</script>' "\u202e" '\u001b[31m'; echo '<b>ran</b>'`;
  const command = await agent.run(session, text);
  await agent.end(command);
  const ann = await person({ name: '<i>Ann</i>' });
  await ann.openSessions();
  await until('the row shows the name as text', async () => (await ann.row(session).innerText()).includes(name));
  await ann.openSession(session);
  assert.equal(await ann.at('session-name').innerText(), name);
  const shown = await ann.text('command-text');
  assert.ok(shown.includes('<script>window.hacked=1</script>'), shown);
  assert.ok(shown.includes('⟨U+202E⟩') && shown.includes('␛[31m'), 'what hides or acts is made visible');
  assert.equal(await ann.text('account'), '<i>Ann</i>');
  await ann.writes(/^<b>ran<\/b>$/);
  const planted = await ann.page.evaluate(() => document.querySelectorAll('img[src=x], [data-testid] b, [data-testid] i').length);
  assert.equal(planted, 0);
  assert.equal(await ann.page.evaluate(() => window.hacked), undefined);
  assert.equal((await server.operator().sessions()).find((one) => one.session_id === session).name, name);
});

check('what a full screen program left is shown as it stood, also after a reload', async ({ agent, person, session: shared }) => {
  const session = await shared();
  const command = await agent.run(session, String.raw`echo before; printf '\033[?1049h\033[2J\033[Hinside\033[?1049l'; printf '10%%\r50%%\r100%%\n'; echo after`);
  await agent.end(command);
  const ann = await person();
  await ann.openSession(session);
  const lines = await ann.writes(/^after$/);
  assert.deepEqual(lines, ['before', '100%', 'after']);
  await ann.page.reload();
  assert.deepEqual(await ann.writes(/^after$/), lines);
});
