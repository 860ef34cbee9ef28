//! What passed and what did not, one line each.

use std::process::ExitCode;

/// What was checked, and how it went.
#[derive(Debug, Default)]
pub struct Checks {
    passed: usize,
    failed: usize,
}

// === impl Checks ===

impl Checks {
    /// Says how a check went.
    pub fn add(&mut self, name: &str, outcome: anyhow::Result<()>) {
        match outcome {
            Ok(()) => {
                self.passed += 1;
                println!("ok    {name}");
            }
            Err(error) => {
                self.failed += 1;
                println!("FAIL  {name}: {error:#}");
            }
        }
    }

    /// The last line.
    pub fn verdict(&self) -> ExitCode {
        println!("{} passed, {} failed", self.passed, self.failed);
        if self.failed == 0 && self.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
