// Waiting for what must come true. Nothing here sleeps for a fixed time and hopes.
import { setTimeout as pause } from 'node:timers/promises';

/** Generous: the tests share two cores with whatever else runs on the machine. */
export const DEADLINE_MS = 30_000;
const LOOK_EVERY_MS = 50;

/**
 * Asks `probe` until its answer is not falsy, and returns that answer. A probe that throws has not come true yet.
 * `told` describes the last look in the error's message; unless given, it is the probe's last answer.
 */
export async function until(what, probe, { deadline = DEADLINE_MS, told } = {}) {
  const end = Date.now() + deadline;
  let last;
  for (;;) {
    try {
      last = await probe();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) break;
    await pause(LOOK_EVERY_MS);
  }
  let seen = last instanceof Error ? last.message : JSON.stringify(last);
  if (told) seen = await Promise.resolve(told()).catch((error) => error.message);
  throw new Error(`not within ${deadline / 1000} s: ${what}; last seen: ${seen}`);
}
