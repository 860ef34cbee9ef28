//! How far a template may go.
//!
//! Templates come from users. Each bound gives an error, never a crash, a hang or a full memory.

use crate::error::FunctionError;

/// The bounds of one template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest source, in bytes.
    pub source: usize,
    /// How deep parentheses may nest in the source.
    pub parentheses: usize,
    /// The longest output, in bytes. No computed text is longer either.
    pub output: usize,
    /// How many instructions run, loops and called templates included.
    pub steps: u64,
    /// How many bytes all functions together may make, beside the output.
    pub work: usize,
    /// How deep templates may call each other.
    pub depth: usize,
    /// How deep lists and maps may lie within each other.
    pub nesting: usize,
}

/// What is left of the bounds while a template runs. Functions that make or walk something big charge it.
#[derive(Debug)]
pub struct Budget {
    /// The bounds.
    pub(crate) limits: Limits,
    work: usize,
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            source: 1 << 20,
            parentheses: 200,
            output: 256 << 20,
            steps: 200_000_000,
            work: 1 << 30,
            depth: 100_000,
            nesting: 1000,
        }
    }
}

// === impl Budget ===

impl Budget {
    /// A full budget.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { limits: limits.clone(), work: limits.work }
    }

    /// Takes bytes of work; an error when none is left.
    pub fn charge(&mut self, bytes: usize) -> Result<(), FunctionError> {
        match self.work.checked_sub(bytes) {
            Some(left) => {
                self.work = left;
                Ok(())
            }
            None => {
                self.work = 0;
                Err(FunctionError::Limit(format!(
                    "exceeded the work limit of {} bytes",
                    self.limits.work
                )))
            }
        }
    }
}
