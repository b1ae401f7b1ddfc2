// A new user's walk: the README's first minute, from the printed link to a killed command to a downloaded file.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { house } from './support/house.mjs';
import { REPOSITORY } from './support/paths.mjs';
import { until } from './support/wait.mjs';

const check = house({ demo: true });

check('from the README to a killed command to a downloaded file', async ({ server, tab }) => {
  const readme = readFileSync(join(REPOSITORY, 'README.md'), 'utf8');
  assert.match(readme, /make run/, 'the README begins with the one command that this server stands for');
  const ann = await tab();
  ann.expect(/Failed to load resource: the server responded with a status of 401/);
  await ann.page.goto(server.link);
  await ann.at('sign-in-name').fill('Ann');
  await ann.at('sign-in-submit').click();
  await ann.isLive();

  await ann.at('new-session').click();
  await ann.at('new-session-name').fill('my first');
  await ann.at('new-session-submit').click();
  await ann.shows('session-name', /^my first$/);
  await ann.at('run-input').fill('echo remember the milk > note.txt; exec sleep 1000');
  await ann.at('run-submit').click();
  await ann.page.locator('[data-testid=command-row][data-state=running]').waitFor();
  await ann.at('kill').click();
  await ann.at('kill-confirm').click();
  await ann.shows('kill-result', /nothing left/);
  assert.doesNotMatch(await ann.text('status'), /complete.*keeps the output open/);

  const note = ann.page.locator('[data-testid=file-row][data-path="/root/note.txt"]');
  await note.waitFor();
  await note.click();
  await until('it is shown', async () => (await ann.at('file-text').textContent()) === 'remember the milk\n');
  const href = await ann.at('view-download').getAttribute('href');
  const response = await ann.page.request.get(ann.base + href);
  assert.equal(await response.text(), 'remember the milk\n');
  assert.match(response.headers()['content-disposition'], /attachment;.*note\.txt/);
});
