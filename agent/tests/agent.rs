//! The agent's parts against files, sockets and APIs.

#[path = "agent/deliver.rs"]
mod deliver;
#[path = "agent/wait.rs"]
mod wait;
