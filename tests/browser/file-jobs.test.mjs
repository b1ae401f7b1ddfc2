// Copies and deletions that are under way: everybody sees them, and whoever may kill a command may stop them.
import assert from 'node:assert/strict';

import { house } from './support/house.mjs';
import { until } from './support/wait.mjs';

const check = house();

/** A copy of so many takes some ten seconds, long enough to be seen and stopped. */
const FOLDERS = 20;
const FILES = 1_000;

check('an operator stops an agent\'s copy without being in control, a viewer reads why not, and nothing of it is left', async ({ agent, person }) => {
  const session = await agent.makeSession('a large copy');
  await agent.outputOf(session, `mkdir tree && cd tree && for d in $(seq ${FOLDERS}); do mkdir $d; (cd $d && touch $(seq ${FILES})); done`);
  const before = await agent.outputOf(session, 'ls -A');
  const [ann, bob] = [await person(), await person({ name: 'Bob', role: 'viewer' })];
  for (const one of [ann, bob]) {
    await one.openSession(session);
    await one.page.locator('[data-testid=file-row][data-path="/root/tree"]').waitFor();
    assert.equal(await one.at('file-job').count(), 0);
  }
  const copy = agent.ask('POST', `/v1/sessions/${session}/fs/copy`, { from: 'tree', to: 'copy' });
  const shown = 'Copying /root/tree to /root/copy [\\d,]+ entries so far · \\d+ s · by agent of the browser tests';
  await ann.shows('file-job', new RegExp(`^${shown} Stop$`));
  await ann.at('job-stop').click();
  await ann.shows('file-job', new RegExp(`^${shown} Stop\\? Nothing of the copy stays\\. Stop Let it run$`));
  assert.equal(await ann.focus(), 'job-stop-confirm');
  await ann.page.keyboard.press('Escape');
  await ann.shows('file-job', new RegExp(`^${shown} Stop$`));
  await bob.shows('file-job', new RegExp(`^${shown}$`));
  await bob.shows('jobs-note', /^You are signed in to watch\. An operator's key can stop this\.$/);
  await ann.at('job-stop').click();
  await ann.at('job-stop-confirm').click();

  await ann.shows('toasts', /The copying of \/root\/tree was stopped; nothing of the copy is left\./);
  const { text } = await copy;
  assert.match(text.trim().split('\n').at(-1), /this was stopped by Ann/);
  assert.equal(await agent.outputOf(session, 'ls -A'), before);
  for (const one of [ann, bob]) await until('it is shown no more', async () => (await one.at('file-job').count()) === 0);
  assert.equal(await bob.at('jobs-note').count(), 0);
});
