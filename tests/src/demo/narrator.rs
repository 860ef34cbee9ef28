//! What the demo says: a line per step with the time since the start, and on a terminal a line that lives while
//! something is awaited.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use super::table::{WIDTH, cut};

/// Tells the story on standard output.
///
/// When nobody listens any more (`cargo demo | head`), the demo goes on in silence: its exit code still counts.
#[derive(Debug)]
pub(super) struct Narrator {
    start: Instant,
    terminal: bool,
    /// Whether a live line is on the screen.
    live: bool,
}

// === impl Narrator ===

impl Narrator {
    pub fn new() -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self { start: Instant::now(), terminal, live: false }
    }

    /// A step, with the time.
    pub fn step(&mut self, text: &str) {
        let time = self.time();
        self.write(&format!("{time}  {text}\n"));
    }

    /// More about the last step.
    pub fn more(&mut self, text: &str) {
        let text: String = text.lines().map(|line| format!("        {line}\n")).collect();
        self.write(&text.replace("        \n", "\n"));
    }

    /// Text as it is.
    pub fn plain(&mut self, text: &str) {
        self.write(&format!("{text}\n"));
    }

    /// How it stands while something is awaited; the next text takes its place.
    pub fn live(&mut self, text: &str) {
        if self.terminal {
            let line = cut(&format!("{}  ... {text}", self.time()), WIDTH - 1);
            self.write(&line);
            self.live = true;
        }
    }

    fn time(&self) -> String {
        format!("{:5.1}s", self.start.elapsed().as_secs_f32())
    }

    fn write(&mut self, text: &str) {
        let clear = if self.live { "\r\x1b[2K" } else { "" };
        self.live = false;
        let mut out = std::io::stdout().lock();
        let _nobody_listens = write!(out, "{clear}{text}").and_then(|()| out.flush());
    }
}
