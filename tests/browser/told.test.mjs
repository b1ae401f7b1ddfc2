// What a model was told, one click from its command.
import assert from 'node:assert/strict';

import { house } from './support/house.mjs';
import { until } from './support/wait.mjs';

const check = house();

check('a human reads the very text that the model got, newest first, and markup in it stays text', async ({ agent, person }) => {
  const session = await agent.makeSession('told');
  const tool = (name, input) => agent.done('POST', `/v1/sessions/${session}/tools/${name}`, input);
  const command = `printf '<b>bold</b>\\033[31m\\n'; sleep 0.3; exit 3`;
  await tool('shell_exec', { command, timeout: 0 });
  const last = await tool('shell_wait', { timeout: 60 });
  const ann = await person();
  await ann.openSession(session);
  await ann.at('told').click();
  const texts = () => ann.at('told-text').allTextContents();
  await until('both answers are shown', async () => (await texts()).length === 2);
  const [newest, first] = await texts();
  assert.equal(newest, last.text.replaceAll('\u001b', '\u241b'));
  assert.match(first, /^still running after 0s; /);
  await ann.page.keyboard.press('Escape');
  await until('the dialog is closed', async () => !(await ann.at('told-text').first().isVisible()));
  // What is about no command is found in the session's facts.
  const list = await tool('shell_list', {});
  await ann.page.getByRole('button', { name: 'Info' }).first().click();
  await ann.at('told-all').click();
  await until('all answers are shown', async () => (await texts()).length === 3);
  assert.equal((await texts())[0], list.text);
  assert.match(await ann.page.locator('.told-input').last().textContent(), /"command": ?"printf '<b>bold<\/b>/);
});
