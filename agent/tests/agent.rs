//! The agent's parts against files, sockets and APIs.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "agent/deliver.rs"]
mod deliver;
#[path = "agent/wait.rs"]
mod wait;
