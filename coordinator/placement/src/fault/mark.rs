//! A restart as it is written on its group.

use jiff::Timestamp;
use muster_scheduler::input::Labels;

use super::{Note, Restart};
use crate::names::{FAULT_RESTART, FAULT_RESTART_UP_TO};

/// What is written on a group. Times that cannot be read are none.
pub(super) fn read(annotations: &Labels) -> Option<Restart> {
    let time = |name: &str| annotations.get(name)?.parse::<Timestamp>().ok();
    let at = time(FAULT_RESTART)?;
    Some(Restart { at, up_to: time(FAULT_RESTART_UP_TO).unwrap_or(Timestamp::MIN) })
}

// === impl Note ===

impl Note {
    /// The annotations that say it.
    pub fn annotations(&self) -> [(&'static str, String); 2] {
        let Restart { at, up_to } = self.restart;
        [(FAULT_RESTART, at.to_string()), (FAULT_RESTART_UP_TO, up_to.to_string())]
    }
}
