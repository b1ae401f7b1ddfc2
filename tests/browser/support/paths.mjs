// Where things are.
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const REPOSITORY = join(dirname(fileURLToPath(import.meta.url)), '../../..');
export const BINARY = process.env.GLASSBOX_BINARY || join(REPOSITORY, 'target/debug/glassbox');
export const HELPER = process.env.GLASSBOX_HELPER || join(REPOSITORY, 'target/helper/glassbox-inside');
export const CHROMIUM = process.env.GLASSBOX_CHROMIUM || '/usr/bin/chromium';
export const PAGE = join(REPOSITORY, 'web/dist/index.html');
export const SCREENSHOTS = join(REPOSITORY, 'target/screenshots');
