//! A restart as it is written on its group.

use jiff::Timestamp;
use muster_scheduler::input::Labels;

use super::{Note, Restart};
use crate::names::{FAULT_RESTART, FAULT_RESTART_UP_TO, FAULT_RESTARTS};

/// What is written on a group. Times that cannot be read are none, and a number that cannot be is one.
pub(super) fn read(annotations: &Labels) -> Option<Restart> {
    let time = |name: &str| annotations.get(name)?.parse::<Timestamp>().ok();
    let at = time(FAULT_RESTART)?;
    let up_to = time(FAULT_RESTART_UP_TO).unwrap_or(Timestamp::MIN);
    let count = annotations.get(FAULT_RESTARTS).and_then(|text| text.parse().ok());
    Some(Restart { at, up_to, count: count.unwrap_or(1).max(1) })
}

// === impl Note ===

impl Note {
    /// The annotations that say it.
    pub fn annotations(&self) -> [(&'static str, String); 3] {
        let Restart { at, up_to, count } = self.restart;
        [
            (FAULT_RESTART, at.to_string()),
            (FAULT_RESTART_UP_TO, up_to.to_string()),
            (FAULT_RESTARTS, count.to_string()),
        ]
    }
}
