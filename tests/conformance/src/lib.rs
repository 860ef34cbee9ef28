//! Recorded behaviour of the originals, for the tests that replay it.
//!
//! Each area is an archive beside this crate. `MUSTER_CONFORMANCE` names a folder to read instead: it has one folder for each
//! area, with the same files. A test of recordings is a program of its own (`harness = false`), because Rust's test harness swallows
//! what a passing test prints and cannot ignore a test while it runs:
//!
//! ```no_run
//! use muster_conformance::{Recordings, Test};
//!
//! fn replay(recordings: &Recordings) -> Result<(), String> {
//!     let cases: Vec<serde_json::Value> = recordings.each("cases");
//!     println!("conformance ranktable: {0} of {0}", cases.len());
//!     Ok(())
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     muster_conformance::run("ranktable", &[Test { name: "ranktable_conformance", needs: "cases", replay }])
//! }
//! ```
#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    reason = "tests read their cases and their environment, and a case that cannot be read is a failed test"
)]

mod recordings;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};

pub use recordings::Recordings;

/// The environment variable that names another folder of recordings.
pub const VARIABLE: &str = "MUSTER_CONFORMANCE";

/// A test that replays recordings of an area.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Name of the test.
    pub name: &'static str,
    /// The file or folder without which there is nothing to replay. The test is ignored then, and its name says why.
    pub needs: &'static str,
    /// Replays, prints `conformance AREA: N of M`, and says what is wrong.
    pub replay: fn(&Recordings) -> Result<(), String>,
}

/// The `main` of a test program: runs the tests of an area.
pub fn run(area: &str, tests: &[Test]) -> ExitCode {
    let arguments = Arguments::from_args();
    let recordings = Arc::new(Recordings::open(area));
    let trials = tests.iter().map(|test| {
        let (recordings, replay) = (recordings.clone(), test.replay);
        if recordings.has(test.needs) {
            return Trial::test(test.name, move || replay(&recordings).map_err(Into::into));
        }
        let why = format!("{area}/{} is not in {}", test.needs, recordings.source());
        Trial::test(format!("{} ({why})", test.name), || Ok(())).with_ignored_flag(true)
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
