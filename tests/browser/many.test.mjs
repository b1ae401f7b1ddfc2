// Thousands of things on one page: it stays fluid.
import assert from 'node:assert/strict';

import { house } from './support/house.mjs';
import { until } from './support/wait.mjs';

const check = house();

const COMMANDS = 2_000;

const ID_LETTERS = 'abcdefghijklmnopqrstuvwxyz234567';

/** An id like this one, with a number in it. */
function counted(id, number) {
  const letter = (place) => ID_LETTERS[Math.floor(number / 32 ** place) % 32];
  return id.slice(0, -3) + letter(2) + letter(1) + letter(0);
}

/** Answers questions after the commands of a session with thousands, made from a real one: running them would take minutes. */
async function pretendMany(glass, session, real) {
  const address = new RegExp(`/v1/(sessions|history)/${session}/commands\\?`);
  await glass.page.route(address, async (route) => {
    const asked = new URL(route.request().url()).searchParams;
    const last = Math.min(Number(asked.get('before') ?? COMMANDS + 1), COMMANDS + 1) - 1;
    const first = Math.max(1, last - Number(asked.get('limit')) + 1);
    const commands = [];
    for (let number = last; number >= first; number -= 1) {
      const command = number % 7 === 0 ? 'cargo test --workspace --all-features -- --nocapture 2>&1 | tail -n 40' : `make step-${number}`;
      const state = number % 5 === 0 ? { state: 'exited', code: 2 } : {};
      commands.push({ ...real, ...state, command, number, command_id: counted(real.command_id, number) });
    }
    await route.fulfill({ json: { commands, next: first > 1 ? first : null } });
  });
}

check('2,000 commands are scrolled through without a long task', async ({ agent, person, session }) => {
  const id = await session();
  const real = await agent.end(await agent.run(id, 'true'));
  const ann = await person();
  await pretendMany(ann, id, real);
  await ann.openSession(id);
  const rows = ann.at('command-row');
  await rows.first().waitFor();
  const older = ann.page.locator('button.older');
  let loaded = await rows.count();
  while (loaded < COMMANDS) {
    // Without the mouse: what is under it moves while rows come.
    await until('older commands can be asked for', () => older.isEnabled());
    await older.evaluate((button) => button.click());
    const before = loaded;
    loaded = await until('older commands come', async () => {
      const count = await rows.count();
      return count > before && count;
    }, { told: async () => `${await rows.count()} rows, ${await older.innerText()}` });
  }
  await until('there are no older ones', async () => (await older.count()) === 0);
  await ann.scrollsFluidly(ann.page.locator('.commands .scroll'));

  // The very first is the real one.
  assert.match(await rows.nth(COMMANDS - 2).textContent(), /make step-2/);
  await rows.first().focus();
  await ann.page.keyboard.press('j');
  await until('the keyboard moves on to the next row', () => rows.nth(1).evaluate((row) => row === document.activeElement));
});
