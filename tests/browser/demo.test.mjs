// The main job, as the README tells it: start with the demo agent, open the link, watch, kill what hangs.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import { house } from './support/house.mjs';
import { SCREENSHOTS } from './support/paths.mjs';
import { until } from './support/wait.mjs';

const check = house({ demo: true });
/** Seven commands with two seconds between them. */
const SCRIPT_MS = 90_000;

check('glassbox serve --demo: the printed link opens, the commands of the agent stream, and the hanging one is killed from the page', async ({ server, tab }) => {
  const ann = await tab();
  await ann.page.goto(server.link);
  await ann.at('sign-in-name').fill('Ann');
  await ann.at('sign-in-submit').click();
  await ann.isLive();
  const row = ann.at('session-row').filter({ hasText: 'demo' });
  await row.click();
  await ann.shows('session-name', /^demo$/);
  await ann.shows('control', /^agent in control$/);
  await until('six commands ended and the seventh runs', async () => {
    const states = await ann.at('command-row').evaluateAll((rows) => rows.map((row) => row.dataset.state));
    return states.filter((state) => state === 'exited').length === 6 && states.includes('running');
  }, { deadline: SCRIPT_MS, told: () => ann.page.locator('.commands').innerText() });
  await ann.writes(/^waiting for the database at db:5432 \.\.\.$/);
  await ann.shows('status', /no output for \d+ s/);
  mkdirSync(SCREENSHOTS, { recursive: true });
  await ann.page.screenshot({ path: join(SCREENSHOTS, 'demo.png') });

  await ann.at('kill').click();
  await ann.at('kill-confirm').click();
  await ann.shows('kill-result', /^killed, SIGTERM after [\d.]+ m?s, nothing left · by Ann$/);
  const line = await server.says(/^demo: command 7 /);
  assert.equal(line, 'demo: command 7 killed by Ann');
});
