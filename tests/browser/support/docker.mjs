// Looking at the engine behind the server's back, by Docker's own command line.
import { execFile, execFileSync } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);
/** Removing a container on a loaded machine has been seen to take long. */
const DEADLINE_MS = 60_000;
/** The labels that all objects of a server carry (`server/src/runtime/mod.rs`). */
const INSTANCE = 'glassbox.instance';
const KIND = 'glassbox.kind';

const lines = (text) => text.split('\n').filter(Boolean);

async function docker(...words) {
  const { stdout } = await run('docker', words, { timeout: DEADLINE_MS });
  return stdout;
}

function dockerNow(...words) {
  return execFileSync('docker', words, { timeout: DEADLINE_MS, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
}

/** One clear sentence where there is no Docker with gVisor. */
export async function requireDocker() {
  let runtimes;
  try {
    runtimes = await docker('info', '--format', '{{json .Runtimes}}');
  } catch (error) {
    throw new Error(`these tests need Docker with gVisor, and the Docker engine does not answer; run \`make setup\`. (${error.message.trim()})`);
  }
  if (!runtimes.includes('"runsc"')) throw new Error('these tests need Docker with gVisor, and Docker has no runtime named runsc; run `make setup`.');
}

const ofInstance = (instance) => ({
  containers: ['ps', '--all', '--format', '{{.Names}}', '--filter', `label=${INSTANCE}=${instance}`],
  // The helper's volume is shared by all servers and is not one of them.
  volumes: ['volume', 'ls', '--quiet', '--filter', `label=${INSTANCE}=${instance}`, '--filter', `label=${KIND}=workspace`],
});

/** Names of all containers and workspaces of an instance. */
export async function objectsOf(instance) {
  const { containers, volumes } = ofInstance(instance);
  return [...lines(await docker(...containers)), ...lines(await docker(...volumes))];
}

/** Kills the sandbox of a session, as a fault of the machine would. */
export async function killSandboxOf(session) {
  const [container] = lines(await docker('ps', '--format', '{{.Names}}', '--filter', `label=glassbox.session=${session}`));
  await docker('kill', container);
}

/** Removes them; returns what there was. Synchronous, for the last moments of a process. */
export function removeObjectsOf(instance) {
  const { containers, volumes } = ofInstance(instance);
  const found = [lines(dockerNow(...containers)), lines(dockerNow(...volumes))];
  if (found[0].length > 0) dockerNow('rm', '--force', ...found[0]);
  if (found[1].length > 0) dockerNow('volume', 'rm', '--force', ...found[1]);
  return found.flat();
}
