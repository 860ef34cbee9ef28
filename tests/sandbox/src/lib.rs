//! An embedded Kubernetes: an API server in memory, the controllers that a cluster brings along, and
//! simulated nodes, all in one process.
//!
//! ```text
//!        kubectl, kube-rs, Python client            in-process clients
//!                 │ HTTP (listen)                        │ tower (service)
//!                 └──────────────┬───────────────────────┘
//!                               api ── auth ── faults
//!                                │
//!            verb / sub ── admit ── builtin ── muster-objects (patch, apply, schema)
//!                                │
//!                              store ──▶ watchers
//!                                ▲
//!            control (Job, JobSet, GC, scheduler …) and kubelet (simulated nodes): clients like any other
//! ```
//!
//! Start at [`Sandbox::builder`]; for one request's way through the server read `api.rs`, then `verb/`.
//! It never pretends: what it does not serve is 404, and a table of cases is run against it and against a
//! real kube-apiserver.

pub mod admit;
pub mod api;
pub mod auth;
pub mod builtin;
pub mod clock;
pub mod control;
mod crd;
mod discovery;
mod expiry;
pub mod faults;
pub mod flags;
pub mod hardware;
pub mod kinds;
pub mod kubelet;
mod listen;
mod represent;
mod request;
mod sandbox;
mod service;
pub mod store;
mod sub;
mod table;
pub mod tls;
mod verb;

pub use sandbox::{Builder, Sandbox, write_private};
pub use service::InProcess;
