//! The integration tests: the real server, real Docker with gVisor, real clients. One binary, one module a concern.
//!
//! "Case N" in a comment is that line of the project's list of cases. Deadlines are generous everywhere: they tell what
//! hangs from what works on a busy machine; how fast it works is the benchmark's business.

mod architecture;
mod auth;
mod backup;
mod bombs;
mod cli;
mod cli_engine;
mod cli_run;
mod commands;
mod config;
mod disk_full;
mod engine_faults;
mod examples;
mod files;
mod files_access;
mod files_full;
mod files_hostile;
mod files_race;
mod files_timeline;
mod files_write;
mod flood;
mod helper_place;
mod history;
mod kill;
mod leftovers;
mod limits;
mod live;
mod live_rules;
mod mcp;
mod openapi;
mod output;
mod profiles;
mod proxies;
mod random_kills;
mod restart;
mod sandbox_death;
mod sign_in;
mod source;
mod stop;
mod tls;
mod tools;
