//! The page: sessions as they work, their commands, their output; and the ways to act on them.
//!
//! [`state`] is what the page knows, as plain data and pure functions; it compiles for the host and is tested there
//! (`cargo nextest run -p glassbox-web`). `page` (cargo feature `page`) is what needs a browser: components, the REST calls,
//! the live socket, JavaScript behind guards. The bytes of an output go from the socket's message straight into
//! xterm.js; they never pass through a signal.
//!
//! # Building
//! `trunk build` (see `Trunk.toml` and `web/index.html`) writes `web/dist`. Everything is served from the origin's root: any
//! address that is not a file there and not the API's (`/`, `/sign-in`, `/sessions/{id}`, `/history`) gets `index.html`.
//! Files under `/vendor/` have their version in the path; the others have a hash in their name, `boot.js` excepted.
//! `web/mock/server.mjs` serves `web/dist` with made-up sessions, to look at the page without Docker.
//!
//! # What tests can hold on to (`data-testid`)
//!
//! | page | ids |
//! | --- | --- |
//! | sign-in | `sign-in-key`, `sign-in-name`, `sign-in-submit`, `sign-in-problem` |
//! | everywhere | `connection-bar` (`data-line`: `connecting`, `live`, `lost`, `signed-out`; class `shown` while it says something), `line`, `account`, `theme`, `sign-out`, `toasts`, `palette-input` |
//! | sessions | `session-row` (`data-session-id`), `filter`, `empty`, `new-session`, `new-session-name`, `new-session-memory`, `new-session-submit` |
//! | session | `session-name`, `control`, `delete-session`, `delete-confirm`, `missing-session`, `restart-card` |
//! | commands | `command-row` (`data-command-id`, `data-state`: the state's word on the wire; `aria-current` when shown), `run-input`, `run-submit`, `run-note` (why one may not) |
//! | output | `output` (its property `glassboxTerminal` is the xterm.js `Terminal`: read the text from `buffer.active`), `command-text`, `status`, `earlier-note`, `gap-note`, `link-note`, `jump-to-live`, `way-back`, `download-log` |
//! | history | `to-history`, `history-search`, `search-status`, `search-hit`, `history-row` (`data-session-id`), `history-maker`, `history-reason`, `history-empty`, `history-none`; in a session: `timeline`, `purge-session`, `purge-confirm` |
//! | kill | `kill`, `kill-confirm`, `kill-cancel`, `kill-progress`, `kill-result` |

pub mod state;

#[cfg(feature = "page")]
pub mod page;
