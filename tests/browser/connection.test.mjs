// The line to the server breaks, the server dies, the tab sleeps: the page says so and misses nothing.
import assert from 'node:assert/strict';

import { killSandboxOf } from './support/docker.mjs';
import { LINE_LOST } from './support/glass.mjs';
import { house } from './support/house.mjs';
import { Proxy } from './support/proxy.mjs';
import { until } from './support/wait.mjs';

const check = house();

/** Writes `line 1`, `line 2`, … for ever, some hundred a second. */
const COUNTING = 'i=0; while true; do i=$((i+1)); echo "line $i"; [ $((i % 20)) != 0 ] || sleep 0.1; done';
/** The same to a fixed end. */
const countingTo = (last) => `for i in $(seq 1 ${last}); do echo "line $i"; [ $((i % 20)) != 0 ] || sleep 0.05; done`;

const count = (lines) => lines.filter((line) => line.startsWith('line ')).length;

/** Numbered without a duplicate or a hole. */
function assertCounts(lines, upTo) {
  const broken = lines.findIndex((line, at) => line !== `line ${at + 1}`);
  assert.ok(broken === -1, `line ${broken + 1} is ${JSON.stringify(lines[broken])} after ${JSON.stringify(lines[broken - 1])}`);
  if (upTo !== undefined) assert.equal(lines.length, upTo);
}

check('the line is cut while a command writes: a bar says so, it reconnects, and the output goes on where it stopped', async ({ server, agent, person, session: shared }) => {
  const proxy = await Proxy.to(server.base);
  try {
    const session = await shared();
    const command = await agent.run(session, countingTo(3000));
    const ann = await person({ base: proxy.base });
    ann.expect(LINE_LOST);
    await ann.openSession(session);
    await ann.writes(/^line 20$/);
    proxy.cut();
    await ann.shows('connection-bar', /^Reconnecting\. Output continues where it stopped\./);
    await ann.shows('line', /reconnecting/);
    await ann.shows('status', /waiting for the connection/);
    const seen = count(await ann.lines());
    assert.ok(seen > 0 && await ann.at('output').isVisible(), 'what is there stays readable');
    await until('the command goes on without a viewer', async () => (await agent.command(command)).output_bytes > seen * 12);
    proxy.mend();
    await ann.isLive();
    await until('the bar is gone', async () => !(await ann.at('connection-bar').getAttribute('class')).includes('shown'));
    await ann.writes(/^line 3000$/);
    assertCounts(await ann.lines(), 3000);
    await ann.commandIs(command, 'exited');
  } finally {
    proxy.close();
  }
});

check('a session that ends while the line is away is there as its record when it is back', async ({ server, agent, person }) => {
  const proxy = await Proxy.to(server.base);
  try {
    const session = await agent.makeSession('ends unseen');
    await agent.end(await agent.run(session, 'echo the last words'));
    const ann = await person({ base: proxy.base });
    ann.expect(LINE_LOST);
    // The files are asked for once more before the page knows.
    ann.expect(/status of 404/);
    await ann.openSession(session);
    await ann.writes(/^the last words$/);
    proxy.cut();
    await ann.shows('connection-bar', /^Reconnecting/);
    await agent.deleteSession(session);
    proxy.mend();
    await ann.isLive();
    await ann.page.getByText('This session has ended (deleted)').waitFor();
    await ann.shows('session-name', /^ends unseen$/);
    await ann.writes(/^the last words$/);
  } finally {
    proxy.close();
  }
});

check('the server is killed and started again: the page comes back by itself, and tells truthfully what became of the command', async ({ server, agent, person, session: shared }) => {
  const session = await shared();
  await agent.outputOf(session, 'echo kept > file');
  const command = await agent.run(session, COUNTING);
  const ann = await person();
  ann.expect(LINE_LOST);
  await ann.openSession(session);
  await ann.writes(/^line 60$/);
  await server.killHard();
  await ann.shows('connection-bar', /^Reconnecting\. Output continues where it stopped\./);
  const seen = count(await ann.lines());
  await server.launch();
  await ann.isLive();
  await ann.commandIs(command, 'interrupted');
  await until('it says why', () => ann.page.getByText('the server was restarted while it ran').first().isVisible());
  assert.equal(await ann.at('kill').count(), 0);
  const lines = await ann.lines();
  assertCounts(lines.at(-1) === `line ${lines.length}` ? lines : lines.slice(0, -1));
  assert.ok(count(lines) >= seen, `${count(lines)} lines of ${seen} that were shown before`);

  const next = await agent.run(session, 'cat file');
  await ann.isShown(next);
  await ann.writes(/^kept$/);
  assert.equal(await ann.at('restart-card').count(), 0, 'the sandbox went on');

  await killSandboxOf(session);
  await ann.at('restart-card').first().waitFor();
});

check('a tab that was frozen slows nothing, and shows the present when it wakes', async ({ agent, person, session: shared }) => {
  const session = await shared();
  const ann = await person();
  await ann.openSession(session);
  const first = await agent.run(session, 'echo ready');
  await ann.isShown(first);
  await ann.writes(/^ready$/);
  const devtools = await ann.page.context().newCDPSession(ann.page);
  await devtools.send('Page.setWebLifecycleState', { state: 'frozen' });
  const command = await agent.run(session, 'head -c 20M /dev/urandom | base64; echo the end; exec sleep 1000');
  await until('all of it is written while nobody reads', async () => (await agent.command(command)).output_bytes > 28_000_000);
  await devtools.send('Page.setWebLifecycleState', { state: 'active' });
  await ann.isLive();
  await ann.isShown(command);
  await ann.writes(/^the end$/);
  await ann.commandIs(command, 'running');
});

check('a viewer that is busy never slows the command, and catches up with the gap said', async ({ agent, person, session: shared }) => {
  const session = await shared();
  const ann = await person();
  await ann.openSession(session);
  const command = await agent.run(session, 'echo go; until [ -e now ]; do sleep 0.1; done; head -c 80M /dev/urandom | base64; echo the end; exec sleep 1000');
  // Picked, so that the next one does not take its place.
  await ann.command(command).click();
  await ann.isShown(command);
  await ann.writes(/^go$/);
  ann.expect(/Synchronous XMLHttpRequest/);
  // Nothing of the page runs until this call is over: it reads nothing for exactly as long as the flood takes.
  const busy = ann.page.evaluate(([path, enough]) => {
    const begun = Date.now();
    for (;;) {
      const request = new XMLHttpRequest();
      request.open('GET', path, false);
      request.send();
      const { output_bytes: written } = JSON.parse(request.responseText);
      if (written >= enough || Date.now() - begun > 45_000) return written;
      const pause = Date.now() + 200;
      while (Date.now() < pause);
    }
  }, [`/v1/sessions/${session}/commands/${command.command_id}`, 112_000_000]);
  await agent.run(session, 'touch now');
  assert.ok(await busy >= 112_000_000, 'all of it was written while its viewer was busy');
  await ann.writes(/^the end$/);
  await ann.shows('gap-note', /^[\d.]+ MB left out where the output says so/);
});
