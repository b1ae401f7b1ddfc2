// One session: commands, their output, and stopping them.
import assert from 'node:assert/strict';

import { house } from './support/house.mjs';
import { until } from './support/wait.mjs';

const check = house();

/** Seconds in words such as `14 s`. */
const seconds = (text) => Number(text.match(/(\d+) s/)?.[1] ?? NaN);

check('a command appears by itself, streams while it runs, and shows its exit code', async ({ agent, person }) => {
  const session = await agent.makeSession('streaming');
  const ann = await person();
  await ann.openSession(session);
  await until('nothing ran yet', () => ann.page.getByText('No command yet.').isVisible());

  const command = await agent.run(session, 'for i in 1 2 3; do echo "line $i"; sleep 2; done; exit 7');
  await ann.isShown(command);
  await ann.writes(/^line 1$/);
  assert.equal((await agent.command(command)).state, 'running', 'its first line is seen while it runs');
  assert.match(await ann.text('command-text'), /^for i in 1 2 3; do/);
  await ann.commandIs(command, 'running');
  await ann.commandIs(command, 'exited');
  assert.deepEqual(await ann.writes(/^line 3$/), ['line 1', 'line 2', 'line 3']);
  assert.match(await ann.command(command).innerText(), /exit 7/);
  await ann.shows('status', /^complete 21 B$/);

  const good = await agent.run(session, 'true');
  await ann.isShown(good);
  await ann.commandIs(good, 'exited');
  assert.match(await ann.command(good).innerText(), /exit 0/);
  assert.equal(await ann.at('kill').count(), 0, 'what has ended cannot be killed');
});

check('the time of a running command ticks, and the page says for how long nothing was written', async ({ agent, person, session: shared }) => {
  const session = await shared();
  const command = await agent.run(session, 'echo started; exec sleep 1000');
  const ann = await person();
  await ann.openSession(session);
  await ann.writes(/^started$/);
  const time = () => ann.command(command).locator('.time').innerText();
  const first = seconds(await time());
  await until('the time goes on', async () => seconds(await time()) > first);
  await ann.shows('status', /^live 8 B no output for \d+ s$/);
  const silent = seconds((await ann.text('status')).replace(/.*no output for/, ''));
  await until('so does the silence', async () => seconds((await ann.text('status')).replace(/.*no output for/, '')) > silent);
});

check('a kill is asked for in place, can be taken back, and its result is true: by whom, how, what is left', async ({ agent, person, session: shared }) => {
  const session = await shared();
  const command = await agent.run(session, 'echo working; sleep 4711 & sleep 4711');
  const ann = await person({ name: 'Ann' });
  await ann.openSession(session);
  await ann.writes(/^working$/);

  await ann.at('kill').click();
  await until('the question has the focus', async () => (await ann.focus()) === 'kill-confirm');
  assert.equal(await ann.page.locator('dialog[open]').count(), 0, 'no dialog over the output');
  assert.match(await ann.page.getByRole('group', { name: 'Kill' }).innerText(), /Kill\? TERM, then KILL after 5 s/);
  await ann.at('kill-cancel').click();
  await ann.at('kill').waitFor();
  assert.equal((await agent.command(command)).state, 'running');

  await ann.at('kill').click();
  await ann.at('kill-confirm').click();
  await ann.commandIs(command, 'killed');
  await ann.shows('kill-result', /^killed, SIGTERM after [\d.]+ m?s, nothing left · by Ann$/);
  assert.match(await ann.command(command).innerText(), /killed/);
  const told = await agent.end(command);
  assert.equal(told.state, 'killed');
  assert.match(JSON.stringify(told.by), /Ann/);
  assert.equal((await agent.outputOf(session, 'pgrep -f "sleep 471[1]"')).trim(), '', 'really nothing is left');
});

check('a command that ignores TERM is ended by KILL after the grace, and the page counts until then', async ({ agent, person, session: shared }) => {
  const session = await shared();
  const command = await agent.run(session, `bash -c 'trap "" TERM; echo deaf; while true; do sleep 1; done'`);
  const ann = await person();
  await ann.openSession(session);
  await ann.writes(/^deaf$/);
  await ann.at('kill').click();
  await ann.at('kill-confirm').click();
  await ann.shows('kill-progress', /^ending… [1-9]/);
  await ann.commandIs(command, 'killed');
  await ann.shows('kill-result', /^killed, SIGKILL after (5|6|7|8|9|1\d)[\d.]* s, nothing left · by Ann$/);
});

check('by the keyboard alone: Shift X asks, Escape takes it back, Enter kills', async ({ agent, person, session: shared }) => {
  const session = await shared();
  const command = await agent.run(session, 'echo here; exec sleep 1000');
  const ann = await person();
  await ann.openSession(session);
  await ann.writes(/^here$/);
  await ann.page.keyboard.press('x');
  assert.equal(await ann.at('kill-confirm').count(), 0, 'x alone does nothing');
  await ann.page.keyboard.press('Shift+X');
  await until('the question has the focus', async () => (await ann.focus()) === 'kill-confirm');
  await ann.page.keyboard.press('Escape');
  await ann.at('kill').waitFor();
  await ann.page.keyboard.press('Shift+X');
  await until('the question has the focus', async () => (await ann.focus()) === 'kill-confirm');
  await ann.page.keyboard.press('Enter');
  await ann.commandIs(command, 'killed');
});

check('who signs in with a viewer key can watch, and has nothing to kill, run or delete with', async ({ agent, person, session: shared }) => {
  const session = await shared();
  await agent.run(session, 'echo watch me; exec sleep 1000');
  const vic = await person({ name: 'Vic', role: 'viewer' });
  await vic.openSession(session);
  await vic.writes(/^watch me$/);
  await vic.shows('run-note', /signed in to watch/);
  for (const id of ['kill', 'run-input', 'delete-session']) assert.equal(await vic.at(id).count(), 0, id);
  await vic.page.keyboard.press('Shift+X');
  assert.equal(await vic.at('kill-confirm').count(), 0);
  await vic.openSessions();
  assert.equal(await vic.at('new-session').count(), 0);
});

check('in the session of an agent the agent is in control, and the run box says so', async ({ agent, person, session: shared }) => {
  const session = await shared();
  const ann = await person();
  await ann.openSession(session);
  await ann.shows('control', /^agent in control$/);
  await ann.shows('run-note', /is in control here/);
  assert.equal(await ann.at('run-input').count(), 0);
});

check('in a session of their own a person runs commands from the page', async ({ server, person }) => {
  const ann = await person({ name: 'Ann' });
  await ann.openSessions();
  await ann.at('new-session').click();
  await ann.at('new-session-name').fill('of Ann');
  await ann.at('new-session-submit').click();
  await ann.shows('session-name', /^of Ann$/);
  await ann.shows('control', /^Ann in control$/);

  const input = ann.at('run-input');
  await input.fill('echo one');
  await input.press('Shift+Enter');
  await input.pressSequentially('echo two');
  await input.press('Enter');
  await ann.writes(/^two$/);
  assert.deepEqual(await ann.lines(), ['one', 'two']);
  await until('the box is empty again', async () => (await input.inputValue()) === '');
  const [session] = (await server.operator().sessions()).filter(({ name }) => name === 'of Ann');
  const [command] = (await server.operator().done('GET', `/v1/sessions/${session.session_id}/commands`)).commands;
  assert.equal(command.command, 'echo one\necho two');
  assert.match(JSON.stringify(command.actor), /Ann/, 'who ran it is written down');
});

check('a command that was picked stays while newer ones start, and one key leads back to the newest', async ({ agent, person, session: shared }) => {
  const session = await shared();
  const first = await agent.run(session, 'echo the first');
  await agent.end(first);
  const ann = await person();
  await ann.openSession(session);
  await ann.isShown(first);
  const second = await agent.run(session, 'echo the second');
  await ann.isShown(second);
  await ann.command(first).click();
  await ann.isShown(first);
  // While the pointer is over the list its rows stay where they are.
  await ann.at('command-text').hover();
  const third = await agent.run(session, 'echo the third');
  await ann.shows('way-back', /^newest: echo the third/);
  await ann.isShown(first);
  await ann.writes(/^the first$/);
  await ann.page.keyboard.press('.');
  await ann.isShown(third);
  await ann.writes(/^the third$/);
  assert.equal(await ann.at('way-back').count(), 0);
});
