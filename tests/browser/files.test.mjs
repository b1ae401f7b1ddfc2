// The file browser: what is in the sandbox, shown as it is, changed by hand, and never trusted.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { house } from './support/house.mjs';
import { until } from './support/wait.mjs';

const check = house();

/** A session that the agents' side of the tenant made, with an operator's key: Ann may look. */
const theirs = (server, name) => server.operator().makeSession(name);

/** A session that the person made, so that it is theirs to write in. */
async function own(glass, name) {
  const response = await glass.page.request.post(`${glass.base}/v1/sessions`, { data: { name, profile: 'open', memory: '512m' }, headers: { origin: glass.base } });
  assert.equal(response.status(), 201, await response.text());
  return (await response.json()).session_id;
}

/** What a command of theirs wrote, at its end. */
async function outputOf(glass, session, command) {
  const commands = `${glass.base}/v1/sessions/${session}/commands`;
  const started = await glass.page.request.post(commands, { data: { command }, headers: { origin: glass.base } });
  const { command_id: id } = await started.json();
  await until(`${command} ended`, async () => !['starting', 'running'].includes((await (await glass.page.request.get(`${commands}/${id}?wait=10`)).json()).state));
  return (await glass.page.request.get(`${commands}/${id}/log`)).text();
}

const row = (glass, path) => glass.page.locator(`[data-testid=file-row][data-path="${path}"]`);
const paths = (glass) => glass.at('file-row').evaluateAll((rows) => rows.map((one) => one.dataset.path));

/** What a link of the page downloads; the browser's own download would leave a file behind. */
async function download(glass, link) {
  const href = await link.getAttribute('href');
  const response = await glass.page.request.get(glass.base + href);
  assert.equal(response.status(), 200, href);
  return { response, body: await response.body() };
}

check('a name is shown as what it is, whatever it tries to be; it is opened, downloaded, renamed and deleted', async ({ person }) => {
  const ann = await person();
  const session = await own(ann, 'hostile names');
  const names = ['a b', 'two\nlines', `quo"te's`, '<img src=x onerror=window.broken=1>', '\u202egnp.exe', 'x'.repeat(255)];
  const script = names.map((name, at) => `printf 'content ${at}' > "$(printf '%b' ${JSON.stringify([...Buffer.from(name)].map((byte) => `\\0${byte.toString(8).padStart(3, '0')}`).join(''))})"`);
  await outputOf(ann, session, `mkdir names && cd names && ${script.join(' && ')} && printf 'content 6' > "$(printf 'bad\\377name')"`);
  await ann.openSession(session);
  await row(ann, '/root/names').click();
  await until('all are listed', async () => (await paths(ann)).filter((path) => path.startsWith('/root/names/')).length === 7, { told: async () => (await paths(ann)).join(' ') });
  const listed = (await paths(ann)).filter((path) => path.startsWith('/root/names/'));
  assert.ok(listed.includes('/root/names/bad%FFname'), 'a name that is no text keeps its bytes');
  assert.match(await row(ann, '/root/names/%E2%80%AEgnp.exe').innerText(), /u\{202e\}gnp\.exe/, 'what turns the text around is shown');

  for (const path of listed) {
    await row(ann, path).click();
    await until(`${path} is open`, async () => /^content \d$/.test(await ann.at('file-text').textContent()));
    const { response, body } = await download(ann, ann.at('view-download'));
    assert.match(body.toString(), /^content \d$/);
    assert.match(response.headers()['content-disposition'], /^attachment/);
    await ann.at('view-close').click();
  }

  // The page asks after the file that it shows, and hears that it is gone.
  ann.expect(/status of 404/);
  for (const [at, path] of listed.entries()) {
    await row(ann, path).click();
    await ann.at('file-rename').click();
    await ann.at('file-name').fill(`renamed ${at}`);
    await ann.at('file-name-submit').click();
    const renamed = row(ann, `/root/names/renamed%20${at}`);
    await renamed.waitFor();
    await renamed.click();
    await ann.at('file-delete').click();
    await until('the dialog names it', async () => (await ann.page.locator('dialog[open]').innerText()).includes(`renamed ${at}`));
    await ann.at('file-delete-confirm').click();
    await until('it is gone', async () => (await renamed.count()) === 0);
  }
  assert.equal((await outputOf(ann, session, 'ls names | wc -l')).trim(), '0');
  assert.equal(await ann.page.evaluate(() => window.broken), undefined, 'no script ran');
});

check('what the agent makes appears by itself, marked as new', async ({ server, person }) => {
  const session = await theirs(server, 'following');
  const ann = await person();
  await ann.openSession(session);
  await row(ann, '/root/.profile').waitFor();
  await server.operator().outputOf(session, 'echo hello > made.txt');
  const made = row(ann, '/root/made.txt');
  await made.waitFor();
  assert.match(await made.innerText(), /new/);
  await made.click();
  await until('it is shown', async () => (await ann.at('file-text').textContent()) === 'hello\n');
  await until('and is not new any more', async () => !/new/.test(await made.innerText()));

  await server.operator().outputOf(session, 'echo goodbye >> made.txt');
  await ann.shows('file-changed', /has changed/);
  assert.equal(await ann.at('file-text').textContent(), 'hello\n', 'nothing moves under the eye');
  await ann.at('file-reload').click();
  await ann.shows('file-changes', /\+ goodbye/);
});

check('an edit is saved; one of a file that changed meanwhile is not, until someone says so', async ({ person }) => {
  const ann = await person();
  const session = await own(ann, 'editing');
  await outputOf(ann, session, 'printf "one\\ntwo\\n" > list.txt');
  await ann.openSession(session);
  await row(ann, '/root/list.txt').click();
  await ann.at('file-edit').click();
  await ann.at('file-editor').fill('one\nthree\n');
  await ann.at('file-save').click();
  await ann.shows('toasts', /list\.txt saved/);
  assert.equal(await outputOf(ann, session, 'cat list.txt'), 'one\nthree\n');

  await ann.at('file-edit').click();
  await ann.at('file-editor').fill('mine\n');
  await outputOf(ann, session, 'echo theirs > list.txt');
  ann.expect(/status of 412/);
  await ann.at('file-save').click();
  await ann.shows('file-conflict', /- theirs.*\+ mine/);
  assert.equal(await outputOf(ann, session, 'cat list.txt'), 'theirs\n', 'nothing was saved');
  await ann.at('conflict-overwrite').click();
  await until('now it is', async () => (await outputOf(ann, session, 'cat list.txt')) === 'mine\n');
});

check('files are uploaded, small ones at once and large ones in pieces, and come back as they were', async ({ person }) => {
  const ann = await person();
  const session = await own(ann, 'uploading');
  const folder = mkdtempSync(join(tmpdir(), 'glassbox-upload-'));
  try {
    const large = Buffer.alloc(20 * 1024 * 1024, Uint8Array.from({ length: 251 }, (_, at) => at));
    writeFileSync(join(folder, 'small.txt'), 'small\n');
    writeFileSync(join(folder, 'large.bin'), large);
    await ann.openSession(session);
    await ann.at('files').waitFor();
    await ann.at('upload-field').setInputFiles([join(folder, 'small.txt'), join(folder, 'large.bin')]);
    await until('both are there', async () => (await ann.at('upload').allInnerTexts()).filter((text) => /uploaded/.test(text)).length === 2, { told: async () => (await ann.at('upload').allInnerTexts()).join(' | ') });
    await row(ann, '/root/large.bin').click();
    await ann.shows('hex-note', /21 MB, not a text/);
    const { body } = await download(ann, ann.at('view-download'));
    assert.ok(body.equals(large), 'every byte came back');

    ann.expect(/status of 4(09|12)/);
    writeFileSync(join(folder, 'small.txt'), 'other\n');
    await ann.at('upload-field').setInputFiles(join(folder, 'small.txt'));
    await until('it is asked', () => ann.page.getByRole('button', { name: 'Replace it' }).isVisible());
    assert.equal(await outputOf(ann, session, 'cat small.txt'), readFileSync(join(folder, 'small.txt'), 'utf8').replace('other', 'small'));
    await ann.page.getByRole('button', { name: 'Replace it' }).click();
    await until('it is replaced', async () => (await outputOf(ann, session, 'cat small.txt')) === 'other\n');
  } finally {
    rmSync(folder, { recursive: true });
  }
});

check('a binary of 200 MB is a size and numbers, and its tab does not freeze', async ({ server, person }) => {
  const session = await theirs(server, 'large');
  await server.operator().outputOf(session, 'head -c 200000000 /dev/urandom > noise.bin');
  const ann = await person();
  await ann.openSession(session);
  await row(ann, '/root/noise.bin').waitFor();
  await ann.page.evaluate(() => {
    window.longest = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
    }).observe({ type: 'longtask' });
  });
  const before = await ann.page.evaluate(() => performance.now());
  await row(ann, '/root/noise.bin').click();
  await ann.shows('hex-note', /200 MB, not a text/);
  assert.match(await ann.at('file-hex').textContent(), /^00000000 {2}([0-9a-f]{2} {1,2}){16}/);
  const took = (await ann.page.evaluate(() => performance.now())) - before;
  const longest = await ann.page.evaluate(() => window.longest);
  assert.ok(longest < 200, `the longest task took ${longest} ms (of ${took} ms)`);
  const href = await ann.at('view-download').getAttribute('href');
  const part = await ann.page.request.get(ann.base + href, { headers: { range: 'bytes=199999990-199999999' } });
  assert.equal(part.status(), 206);
  assert.equal((await part.body()).length, 10);
});

check('65,000 entries scroll without a long task, to the very end', async ({ server, person }) => {
  const session = await theirs(server, 'many files');
  await server.operator().outputOf(session, `mkdir many && cd many && python3 -c 'for n in range(65000): open(f"file-{n:05}", "w").close()'`);
  const ann = await person();
  await ann.openSession(session);
  await row(ann, '/root/many').click();
  await row(ann, '/root/many/file-00000').waitFor();
  const rows = ann.page.locator('.file-rows');
  await ann.scrollsFluidly(rows);
  await rows.evaluate((list) => {
    list.scrollTop = list.scrollHeight;
  });
  await row(ann, '/root/many/file-64999').waitFor();
});

check('the keyboard does it: move, open, go up, name, delete', async ({ person }) => {
  const ann = await person();
  const session = await own(ann, 'keyboard');
  await outputOf(ann, session, 'mkdir src && echo x > src/a.rs && echo y > b.txt');
  await ann.openSession(session);
  await row(ann, '/root/b.txt').waitFor();
  const { keyboard } = ann.page;
  await ann.at('file-table').focus();
  const chosen = async () => ann.page.locator('[data-testid=file-row][aria-selected=true]').getAttribute('data-path');
  await keyboard.press('Home');
  await until('the first is chosen', async () => (await chosen()) === '/root/src');
  await keyboard.press('ArrowRight');
  await row(ann, '/root/src/a.rs').waitFor();
  await keyboard.press('ArrowDown');
  await keyboard.press('Enter');
  await until('it is open', async () => (await ann.at('file-text').textContent()) === 'x\n');
  // Between the new name and the page's hearing of it, somebody may ask for the old one.
  ann.expect(/status of 404/);
  await ann.at('file-table').focus();
  await keyboard.press('F2');
  await until('the name has the focus', async () => (await ann.focus()) === 'file-name');
  await keyboard.press('Control+a');
  await keyboard.type('c.rs');
  await keyboard.press('Enter');
  await row(ann, '/root/src/c.rs').waitFor();
  await ann.at('file-table').focus();
  await keyboard.press('Backspace');
  await row(ann, '/root').waitFor();
});

const CHANGING = ['upload-button', 'new-folder', 'file-rename', 'file-delete', 'file-edit'];

/** An open file, and nothing to change it with. */
async function onlyReads(glass, session, why) {
  await glass.openSession(session);
  await row(glass, '/root/a.txt').click();
  await until('it is shown', async () => (await glass.at('file-text').textContent()) === 'x\n');
  for (const id of CHANGING) assert.equal(await glass.at(id).count(), 0, id);
  await glass.shows('files-note', why);
  await glass.shows('file-words', why);
  await glass.at('file-table').focus();
  for (const key of ['F2', 'Delete']) await glass.page.keyboard.press(key);
  assert.equal(await glass.page.locator('dialog[open]').count(), 0);
  assert.equal(await glass.at('view-download').count(), 1, 'reading is for all');
}

check('a viewer reads and changes nothing', async ({ server, person }) => {
  const session = await theirs(server, 'for viewers');
  await server.operator().outputOf(session, 'echo x > a.txt');
  const eve = await person({ role: 'viewer', name: 'Eve' });
  await onlyReads(eve, session, /^You are signed in to watch\. An operator's key can change files\.$/);
});

check('only who is in control of a session changes its files, and the others read why not', async ({ agent, person }) => {
  const ofAgent = await agent.makeSession("an agent's files");
  await agent.outputOf(ofAgent, 'echo x > a.txt');
  const ann = await person();
  await onlyReads(ann, ofAgent, /^agent of the browser tests is in control here\. You can look at files and download them; .*later version\.$/);

  const session = await own(ann, "Ann's files");
  await outputOf(ann, session, 'echo x > a.txt');
  const ben = await person({ name: 'Ben' });
  await onlyReads(ben, session, /^Someone else \(Ann\) is in control here\. You can look at files and download them\.$/);
  await ben.shows('run-note', /^Someone else \(Ann\) is in control here\. You can watch and kill\.$/);
  await ann.openSession(session);
  await row(ann, '/root/a.txt').click();
  for (const id of CHANGING) await ann.at(id).waitFor();
  assert.equal(await ann.at('files-note').count(), 0);
});

check('what one saves oneself is nobody else\'s change, whoever the page hears of it from first', async ({ person }) => {
  const ann = await person();
  const session = await own(ann, 'own changes');
  await outputOf(ann, session, 'printf "one\\n" > list.txt');
  await ann.openSession(session);
  await row(ann, '/root/list.txt').click();
  await ann.at('file-edit').click();
  await ann.at('file-editor').fill('one\ntwo and three\n');
  // It is saved, and the answer is held back until the list of the folder has told of it.
  let answer;
  const held = new Promise((resolve) => {
    answer = resolve;
  });
  await ann.page.route('**/fs/content?*', async (route) => {
    if (route.request().method() !== 'PUT') return route.continue();
    const response = await route.fetch();
    await held;
    return route.fulfill({ response });
  });
  const told = [];
  await ann.page.exposeFunction('tell', (what) => told.push(what));
  await ann.page.evaluate(() => new MutationObserver(() => {
    for (const mark of document.querySelectorAll('.fresh, [data-testid=file-changed]')) window.tell(mark.closest('[data-path]')?.dataset.path ?? mark.textContent);
  }).observe(document.body, { childList: true, subtree: true, characterData: true }));
  await ann.at('file-save').click();
  await until('the list tells of it', async () => /18 B/.test(await row(ann, '/root/list.txt').innerText()), { told: () => row(ann, '/root/list.txt').innerText() });
  answer();
  await ann.shows('toasts', /list\.txt saved/);
  await until('it is shown', async () => (await ann.at('file-text').textContent()) === 'one\ntwo and three\n');
  await outputOf(ann, session, 'echo someone > else.txt');
  await until('what a command made is new', async () => /new/.test(await row(ann, '/root/else.txt').innerText()));
  assert.deepEqual([...new Set(told)], ['/root/else.txt'], 'one\'s own was not marked, not even for a moment');
});

check('an open file that is deleted says so and stays to be read; what cannot work is not offered; it may be saved as a new one', async ({ person }) => {
  const ann = await person();
  const session = await own(ann, 'deleting');
  await outputOf(ann, session, 'echo keep me > a.txt; echo and me > b.txt');
  await ann.openSession(session);
  await row(ann, '/root/a.txt').click();
  await until('it is shown', async () => (await ann.at('file-text').textContent()) === 'keep me\n');
  // The page asks after the file that it shows, and hears that it is gone.
  ann.expect(/status of 404/);
  // Nothing of the file browser is on the screen: the open file is followed all the same.
  await ann.page.getByRole('button', { name: 'Info' }).first().click();
  await ann.page.reload();
  await until('it is shown again', async () => (await ann.at('file-text').textContent()) === 'keep me\n');
  assert.equal(await ann.at('file-table').isVisible(), false);
  await outputOf(ann, session, 'rm a.txt');
  await ann.shows('file-gone', /^Deleted, or given another name \(noticed (just now|\d+ s ago)\)\. This is how it was\.$/);
  assert.equal(await ann.at('file-text').textContent(), 'keep me\n');
  for (const id of ['view-download', 'file-edit', 'file-reload', 'file-changed']) assert.equal(await ann.at(id).count(), 0, id);
  await outputOf(ann, session, 'echo back > a.txt');
  await ann.shows('file-changed', /has changed/);
  await ann.at('file-reload').click();
  await ann.shows('file-changes', /- keep me.*\+ back/);

  await ann.page.getByRole('button', { name: 'Files' }).first().click();
  await row(ann, '/root/b.txt').click();
  await until('the other is shown', async () => (await ann.at('file-text').textContent()) === 'and me\n');
  await ann.at('file-edit').click();
  await ann.at('file-editor').fill('mine\n');
  await outputOf(ann, session, 'rm b.txt');
  await ann.at('file-gone').waitFor();
  assert.equal(await ann.at('file-editor').inputValue(), 'mine\n');
  await ann.shows('file-save', /^Save as a new file$/);
  await ann.at('file-save').click();
  await ann.shows('toasts', /b\.txt saved/);
  assert.equal(await outputOf(ann, session, 'cat b.txt'), 'mine\n');
  await until('it is there again', async () => (await ann.at('file-gone').count()) === 0 && (await ann.at('file-text').textContent()) === 'mine\n');
});

check('what was edited and not saved is there again, and is checked against the version that it was made from', async ({ person }) => {
  const ann = await person();
  const session = await own(ann, 'drafts');
  await outputOf(ann, session, 'echo one > a.txt; echo other > b.txt');
  await ann.openSession(session);
  await row(ann, '/root/a.txt').click();
  await ann.at('file-edit').click();
  await ann.at('file-editor').fill('mine\n');
  await row(ann, '/root/b.txt').click();
  await until('the other file is shown', async () => (await ann.at('file-text').textContent()) === 'other\n');
  // Meanwhile somebody else writes, and she looks at another page.
  await outputOf(ann, session, 'echo theirs > a.txt');
  await ann.page.getByRole('link', { name: 'glassbox' }).first().click();
  await ann.at('session-row').first().waitFor();
  await ann.page.goBack();
  await row(ann, '/root/a.txt').click();
  await until('her text is there again', async () => (await ann.at('file-editor').inputValue()) === 'mine\n');
  await ann.shows('file-words', /^changes of yours that are not saved$/);
  ann.expect(/status of 412/);
  await ann.at('file-save').click();
  await ann.shows('file-conflict', /Someone else changed this file/);
  assert.equal(await outputOf(ann, session, 'cat a.txt'), 'theirs\n');
  await ann.at('conflict-reload').click();
  await until('theirs is shown', async () => (await ann.at('file-text').textContent()) === 'theirs\n');
  await row(ann, '/root/b.txt').click();
  await row(ann, '/root/a.txt').click();
  await until('what was dropped is gone', async () => (await ann.at('file-text').textContent()) === 'theirs\n');
});
