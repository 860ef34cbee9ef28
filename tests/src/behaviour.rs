//! One table of Kubernetes behaviour, run on any API server.
//!
//! The table is data: `tests/behaviour/*.yaml`, described in the README beside it. The same cases run on the
//! sandbox and on a real kube-apiserver; each answer is checked against what the case expects, and the whole
//! answers of two servers are compared, so that the sandbox cannot drift away from the real thing.
//!
//! ```text
//! case.rs        the table as data             names.rs       ${ns}, ${rand}, captured values
//! runner.rs      namespaces, steps, retries    exchange.rs    requests, answers, watches
//! expect.rs      does the answer do?           hooks.rs       webhooks over TLS for admission cases
//! transcript.rs  answers made comparable       difference.rs  two transcripts, line by line
//! ```

mod case;
mod difference;
mod exchange;
mod expect;
mod hooks;
mod names;
mod runner;
mod transcript;

use std::path::PathBuf;

pub use self::{
    case::{Case, Table},
    difference::difference,
    runner::{Outcome, Target},
    transcript::Transcript,
};

/// Where the table lies in the source tree.
pub fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("behaviour")
}
