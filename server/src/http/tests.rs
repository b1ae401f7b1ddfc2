//! Requests against the whole router, and the live socket over a real connection.

mod domain;
mod live;
mod mcp;
mod routes;
mod support;
