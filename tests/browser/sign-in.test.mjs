// Who gets in, and how.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';

import { NOT_SIGNED_IN } from './support/glass.mjs';
import { house } from './support/house.mjs';
import { until } from './support/wait.mjs';

const check = house();

const isSignedIn = (glass, name) => glass.shows('account', new RegExp(`^${name}$`));

check('a person signs in with a key and a name; a wrong key is told', async ({ server, tab }) => {
  const someone = await tab();
  someone.expect(NOT_SIGNED_IN);
  await someone.open('/');
  await someone.at('sign-in-key').fill('asb_this_key_was_never_made_by_anyone');
  await someone.at('sign-in-submit').click();
  assert.equal(await someone.at('sign-in-name').evaluate((field) => field.validity.valueMissing), true, 'a name is asked for');
  await until('the missing name has the focus', async () => (await someone.focus()) === 'sign-in-name');
  await someone.at('sign-in-name').fill('Ann');
  await someone.at('sign-in-submit').click();
  await someone.shows('sign-in-problem', /^This key is not valid\.$/);
  await someone.at('sign-in-key').fill(server.keys.acme);
  await someone.at('sign-in-key').press('Enter');
  await isSignedIn(someone, 'Ann');
  await someone.isLive();
  const cookies = await someone.page.context().cookies();
  assert.deepEqual(cookies.map(({ httpOnly, sameSite }) => ({ httpOnly, sameSite })), [{ httpOnly: true, sameSite: 'Strict' }]);
  const kept = await someone.page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage, cookie: document.cookie, address: location.href }));
  assert.ok(!kept.includes(server.keys.acme), 'the key is kept nowhere that a script can read');
});

check('a sign-in link works once, leaves nothing in the address bar, and says so the second time', async ({ server, tab }) => {
  const first = await tab();
  await first.page.goto(server.link);
  await first.at('sign-in-name').waitFor();
  assert.ok(!first.page.url().includes('#'), first.page.url());
  assert.equal(await first.at('sign-in-key').count(), 0, 'a link needs no key');
  await first.at('sign-in-name').fill('Ann');
  await first.at('sign-in-submit').click();
  await isSignedIn(first, 'Ann');
  await first.page.reload();
  await isSignedIn(first, 'Ann');

  const second = await tab();
  second.expect(NOT_SIGNED_IN);
  await second.page.goto(server.link);
  await second.at('sign-in-name').fill('Bob');
  await second.at('sign-in-submit').click();
  await second.shows('sign-in-problem', /^This link was used already, or is too old\. Make another with: glassbox link$/);
  await second.at('sign-in-key').waitFor();
});

check('signing out ends it in every tab of the browser, and the name is remembered', async ({ server, tab }) => {
  const first = await tab();
  first.expect(NOT_SIGNED_IN);
  await first.open('/');
  await first.at('sign-in-key').fill(server.keys.acme);
  await first.at('sign-in-name').fill('Ann');
  await first.at('sign-in-submit').click();
  await isSignedIn(first, 'Ann');
  const second = await tab({ beside: first });
  second.expect(NOT_SIGNED_IN);
  await second.openSessions();
  const [cookie] = await first.page.context().cookies();

  await first.at('account').click();
  await first.at('sign-out').click();
  await first.at('sign-in-key').waitFor();
  await until('the other tab is signed out too', () => second.at('sign-in-key').isVisible());
  await until('and says why', () => second.page.getByText('Your sign-in has ended.').isVisible());
  const answer = await fetch(`${server.base}/v1/me`, { headers: { cookie: `${cookie.name}=${cookie.value}` } });
  assert.equal(answer.status, 401, 'the cookie is worth nothing, whoever kept a copy');
  await first.page.reload();
  await first.at('sign-in-key').waitFor();
  assert.equal(await first.at('sign-in-name').inputValue(), 'Ann');
});

check('a page of another origin can neither watch nor act with the cookie of someone who is signed in', async ({ server, person }) => {
  // The same site to a browser, so that the cookie is sent: only the port differs.
  const other = createServer((_, response) => response.setHeader('content-type', 'text/html').end('<title>other</title>'));
  await new Promise((resolve) => other.listen(0, '127.0.0.1', resolve));
  try {
    const ann = await person();
    ann.expect(/WebSocket connection to|CORS policy|net::ERR_FAILED|net::ERR_BLOCKED_BY_RESPONSE|status of 403/);
    await ann.page.goto(`http://127.0.0.1:${other.address().port}/`);
    const attempts = await ann.page.evaluate(async (base) => {
      const socket = await new Promise((resolve) => {
        const opened = new WebSocket(`${base.replace('http', 'ws')}/v1/ws`, 'glassbox.v1');
        opened.onopen = () => resolve('opened');
        opened.onclose = () => resolve('refused');
      });
      const read = await fetch(`${base}/v1/sessions`, { credentials: 'include' }).then(() => 'read', () => 'refused');
      await fetch(`${base}/v1/sessions`, { method: 'POST', mode: 'no-cors', credentials: 'include', body: '{"name":"forged"}' }).catch(() => null);
      return { socket, read };
    }, server.base);
    assert.deepEqual(attempts, { socket: 'refused', read: 'refused' });
    assert.ok(!(await server.operator().sessions()).some(({ name }) => name === 'forged'));
  } finally {
    other.close();
  }
});
