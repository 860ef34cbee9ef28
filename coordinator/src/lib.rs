//! The coordinator: it knows the jobs, as the agents know the devices.
//!
//! ```text
//!   agents ◀──streams──▶ hub ◀──────────┐
//!   API server ──watch──▶ caches ──▶ controllers ──write──▶ API server
//!                         webhooks ◀── API server
//! ```
//!
//! Of several coordinators one leads: `lead` says which. Controllers run in that one only, and everything they write
//! goes through `write`, which knows until when that is true. All of them serve webhooks and probes, and tell agents who
//! leads. Start reading at `run`.

pub mod args;
pub mod body;
pub mod certs;
pub mod conditions;
pub mod controllers;
pub mod diserver;
pub mod events;
pub mod https;
pub mod lead;
pub mod names;
pub mod placement;
pub mod reports;
pub mod run;
pub mod status;
pub mod templates;
pub mod voice;
pub mod watch;
pub mod webhook;
pub mod write;
