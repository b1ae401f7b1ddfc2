// Who did what to files, in the time line of the session.
import assert from 'node:assert/strict';

import { house } from './support/house.mjs';
import { until } from './support/wait.mjs';

const check = house();

const timeLine = (glass) => glass.at('timeline').locator('li').evaluateAll((all) => all.map((one) => one.querySelector('.word').textContent));

async function tells(glass, pattern) {
  await until(`the time line tells ${pattern}`, async () => (await timeLine(glass)).some((line) => pattern.test(line)), { told: async () => (await timeLine(glass)).join(' | ') });
}

check('what an agent does to files is told as it happens, by name, and leads to the file', async ({ agent, person }) => {
  const session = await agent.makeSession('files of an agent');
  const files = `/v1/sessions/${session}/fs`;
  const ann = await person();
  await ann.openSession(session);
  await ann.page.getByRole('button', { name: 'Info' }).first().click();
  await ann.page.getByRole('button', { name: 'Time line' }).click();
  await tells(ann, /^Made by agent of the browser tests$/);
  await agent.done('POST', `${files}/folders`, { path: 'src' });
  await tells(ann, /^agent of the browser tests made the folder \/root\/src$/);
  await agent.done('PUT', `${files}/content?path=src/a%20%3Cb%3E.txt`, 'content');
  await tells(ann, /^agent of the browser tests saved \/root\/src\/a <b>\.txt, 9 B$/);
  await agent.done('POST', `${files}/rename`, { from: 'src/a%20%3Cb%3E.txt', to: 'src/%25c' });
  await tells(ann, /^agent of the browser tests renamed \/root\/src\/a <b>\.txt to \/root\/src\/%c$/);
  await ann.at('timeline').getByText('renamed').click();
  await until('the file is open', async () => (await ann.at('file-text').textContent()) === '"content"');
  assert.equal(new URL(ann.page.url()).searchParams.get('file'), '/root/src/%25c');
});
