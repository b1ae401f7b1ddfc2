// Agents by their names; and two that use one sandbox at once, which hardly anybody means.
import assert from 'node:assert/strict';

import { house } from './support/house.mjs';
import { McpClient } from './support/mcp.mjs';
import { until } from './support/wait.mjs';

const check = house();

/** The session that an MCP client's workspace is. */
async function sessionOf(agent, workspace) {
  const all = (await agent.sessions()).filter(({ metadata }) => metadata.mcp_workspace === workspace);
  assert.equal(all.length, 1);
  return all[0].session_id;
}

check('two agents in one sandbox are named in the list and on its page, with what to do, until one leaves', async ({ agent, person }) => {
  const claude = await McpClient.begin(agent, { name: 'claude-code', version: '2.1', workspace: 'both' });
  const codex = await McpClient.begin(agent, { name: 'codex', version: '0.9', workspace: 'both' });
  assert.equal(await claude.call('shell_exec', { command: 'echo one' }), 'exit=0\noutput:\none\n');
  const session = await sessionOf(agent, 'both');
  const [ann, bob] = [await person(), await person({ name: 'Bob', role: 'viewer' })];
  await ann.openSessions();
  await bob.openSession(session);
  const row = ann.row(session);
  const inRow = row.getByTestId('row-clients');
  await until('the row names the agent', async () => (await row.locator('.agent').innerText()) === 'claude-code 2.1');
  await bob.page.getByRole('button', { name: 'Info' }).first().click();
  await bob.page.getByText('Made by').waitFor();
  assert.deepEqual([await inRow.count(), await bob.at('clients').count(), await bob.at('clients-note').count()], [0, 0, 0], 'one that has called nothing uses nothing');

  // Each agent is told of the other one, too; here is what people see.
  assert.match(await codex.call('shell_exec', { command: 'echo two' }), /^\[glassbox\] another client \(claude-code 2\.1\) uses this same sandbox now/);
  assert.match(await claude.call('shell_exec', { command: 'echo three' }), /^\[glassbox\] another client \(codex 0\.9\) uses this same sandbox now/);
  const both = '2 agents: claude-code 2.1, codex 0.9';
  await until('the row names both', async () => (await inRow.innerText()) === both);
  await bob.shows('clients', new RegExp(`^${both}$`));
  await bob.shows('clients-note', new RegExp(`^${both} They use this one sandbox at once, .*\\?workspace=NAME`));
  await ann.at('filter').fill('codex');
  await row.waitFor();
  await ann.at('filter').fill('');
  await until('each command is whose it was', async () => (await bob.at('command-row').locator('.by').allInnerTexts()).join() === ',codex 0.9,');

  await codex.leave();
  await until('the row names one', async () => (await inRow.count()) === 0);
  await until('the page names one', async () => (await bob.at('clients').count()) === 0 && (await bob.at('clients-note').count()) === 0);
  assert.equal(await row.locator('.agent').innerText(), 'claude-code 2.1');
  assert.equal(await claude.call('shell_exec', { command: 'echo alone' }), 'exit=0\noutput:\nalone\n');
});
