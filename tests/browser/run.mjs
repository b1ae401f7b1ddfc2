// Runs the browser tests: the real page, in a real browser, against the real server with real sandboxes.
//
//   node tests/browser/run.mjs               all of them
//   node tests/browser/run.mjs connection    one file, by its name
//   node tests/browser/run.mjs kill viewer   those whose names hold all these words
//
// One file after the other, each in a process and with a server of its own. With CI set, a file that fails is run once
// more; if it passes then it is reported as FLAKY, and the run passes.
import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The longest file takes about a minute on two busy cores; beyond this something hangs. */
const FILE_DEADLINE_MS = 6 * 60_000;
/** A file that is told to stop still has sandboxes to remove. */
const STOP_DEADLINE_MS = 60_000;
const SUFFIX = '.test.mjs';

const folder = dirname(fileURLToPath(import.meta.url));
const all = readdirSync(folder).filter((name) => name.endsWith(SUFFIX)).sort();
const asked = process.argv.slice(2);
const named = all.filter((name) => asked.includes(name) || asked.includes(name.slice(0, -SUFFIX.length)));
const words = asked.filter((word) => !all.includes(word) && !all.includes(word + SUFFIX));
const files = named.length > 0 ? named : all;

/** Holds all the words, in any order. */
function pattern() {
  const escaped = words.map((word) => `(?=.*${word.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')})`);
  return `/^${escaped.join('')}/i`;
}

let current = null;
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    current?.kill('SIGTERM');
    process.exitCode = 130;
    files.length = 0;
  });
}

function run(file) {
  const filter = words.length > 0 ? [`--test-name-pattern=${pattern()}`] : [];
  const arguments_ = ['--test-reporter=spec', ...filter, join(folder, file)];
  return new Promise((resolve) => {
    const child = spawn(process.execPath, arguments_, { stdio: 'inherit' });
    current = child;
    const late = setTimeout(() => {
      console.error(`${file}: not done after ${FILE_DEADLINE_MS / 60_000} minutes; stopping it`);
      child.kill('SIGTERM');
      setTimeout(() => child.kill('SIGKILL'), STOP_DEADLINE_MS).unref();
    }, FILE_DEADLINE_MS);
    child.on('exit', (code) => {
      clearTimeout(late);
      current = null;
      resolve(code === 0);
    });
  });
}

const begun = Date.now();
const failed = [];
const flaky = [];
while (files.length > 0) {
  const file = files.shift();
  const fileBegun = Date.now();
  console.log(`\n== ${file}`);
  let passed = await run(file);
  if (!passed && process.env.CI && process.exitCode === undefined) {
    console.log(`\n== ${file}, once more`);
    passed = await run(file);
    if (passed) flaky.push(file);
  }
  if (!passed) failed.push(file);
  console.log(`   ${file}: ${Math.round((Date.now() - fileBegun) / 1000)} s`);
}
for (const file of flaky) console.log(`FLAKY: ${file} failed, and passed when it was run again`);
const took = `${Math.round((Date.now() - begun) / 1000)} s`;
if (failed.length > 0) {
  console.error(`browser tests FAILED: ${failed.join(', ')} (${took})`);
  process.exitCode = 1;
} else if (process.exitCode === undefined) {
  console.log(`browser tests: all passed (${took})`);
}
