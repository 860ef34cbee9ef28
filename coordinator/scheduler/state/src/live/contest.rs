//! Whether somebody else writes an object's conditions as well, as KAI's operator does when it was not stopped.

use jiff::{SignedDuration, Timestamp};

use super::Condition;

/// So often conditions are written again at once: somebody may have restored an object.
const TOLERATED: u32 = 2;
/// After that they are left alone for this long, then for twice as long, and so on.
const PAUSE: SignedDuration = SignedDuration::from_mins(1);
/// No longer than that.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_mins(10);
/// When nobody has written over ours for this long, the past is forgotten.
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(30);

/// How it goes with the conditions of one object.
#[derive(Debug, Default)]
pub struct Contest {
    /// What was written last, and the version of the object that it was written over.
    written: Option<(Vec<Condition>, String)>,
    /// The version in which something else was seen in its place.
    seen: String,
    /// How often in a row, and when last.
    overwritten: u32,
    last: Timestamp,
    /// Nothing is written before.
    until: Timestamp,
}

/// What to do about conditions that differ from ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Write ours.
    Write,
    /// Somebody has written over them once too often: ours come again after this long. People are told.
    Contested(SignedDuration),
    /// People know: after this long.
    Wait(SignedDuration),
}

// === impl Contest ===

impl Contest {
    /// Whose turn it is, when an object of this version has other conditions than ours.
    pub fn turn(&mut self, ours: &[Condition], version: &str, now: Timestamp) -> Turn {
        // A watch that lags shows the version that was written over: nobody has answered that yet.
        let answered = self.written.as_ref().is_some_and(|(conditions, over)| {
            conditions == ours && over != version && self.seen != version
        });
        if answered {
            if now.duration_since(self.last) > FORGOTTEN {
                self.overwritten = 0;
            }
            (self.seen, self.last) = (version.to_owned(), now);
            self.overwritten = self.overwritten.saturating_add(1);
            if let Some(times) = self.overwritten.checked_sub(TOLERATED + 1) {
                let pause = PAUSE.saturating_mul(1_i32.checked_shl(times.min(8)).unwrap_or(1));
                let pause = pause.min(LONGEST_PAUSE);
                self.until = now.saturating_add(pause).unwrap_or(now);
                return Turn::Contested(pause);
            }
        }
        match self.until.duration_since(now) {
            left if left > SignedDuration::ZERO && self.is_known(ours) => Turn::Wait(left),
            _ => Turn::Write,
        }
    }

    /// These were written over that version.
    pub fn wrote(&mut self, ours: &[Condition], over: &str) {
        self.written = Some((ours.to_vec(), over.to_owned()));
    }

    /// What has changed since is written at once: it says something new.
    fn is_known(&self, ours: &[Condition]) -> bool {
        self.written.as_ref().is_some_and(|(conditions, _)| conditions == ours)
    }
}
