//! The coordinator: it knows the jobs, as the agents know the devices.
//!
//! ```text
//!   agents ◀──streams──▶ hub ◀──────────┐
//!   API server ──watch──▶ caches ──▶ controllers ──write──▶ API server
//!                         webhooks ◀── API server
//! ```
//!
//! Of several coordinators one leads: `muster_runtime::election` says which. Controllers run in that one only, and everything
//! they write goes through the fenced writer. All of them serve webhooks and probes, and tell agents who leads. Start reading at `run`.

pub mod args;
pub mod names;
pub mod ranktables;
pub mod run;
pub mod status;
pub mod workloads;
