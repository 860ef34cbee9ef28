//! How long a snapshot is away that somebody has deleted.
//!
//! Who deletes the snapshot of a job wants the runtime of now, or none at all, and looks whether it is gone. So it is away for
//! [`MIN_ABSENCE`], whatever wakes the job meanwhile, and is made again after that. The original has no such rule: there a deletion wakes
//! the job, too, and whether anybody sees that the snapshot was gone is a race.

use std::time::Duration;

use tokio::time::Instant;

/// How long a snapshot that was deleted is not made again.
const MIN_ABSENCE: Duration = Duration::from_secs(1);

/// What is remembered of a job's snapshot. It may be lost: then one that is missing is made at once.
#[derive(Debug, Default)]
pub struct SnapshotAbsence {
    /// The uid of the job whose snapshot was there.
    job: Option<String>,
    /// When it was first missed.
    since: Option<Instant>,
}

// === impl SnapshotAbsence ===

impl SnapshotAbsence {
    /// The snapshot of the job with this uid is there.
    pub fn seen(&mut self, job: &str) {
        self.since = None;
        if self.job.as_deref() != Some(job) {
            self.job = Some(job.to_owned());
        }
    }

    /// The snapshot is not there: how long it is to be so still, if it was there before.
    pub fn remaining(&mut self, job: &str, now: Instant) -> Option<Duration> {
        if self.job.as_deref() != Some(job) {
            return None;
        }
        let since = *self.since.get_or_insert(now);
        let left = MIN_ABSENCE.saturating_sub(now.duration_since(since));
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_that_was_there_is_missed_for_a_second_and_a_new_jobs_not_at_all() {
        let (begun, mut absence) = (Instant::now(), SnapshotAbsence::default());
        let after = |milliseconds| begun + Duration::from_millis(milliseconds);
        assert_eq!(absence.remaining("u1", begun), None, "the job has just begun");
        absence.seen("u1");
        assert_eq!(absence.remaining("u1", after(10)), Some(MIN_ABSENCE));
        assert_eq!(absence.remaining("u1", after(410)), Some(Duration::from_millis(600)));
        assert_eq!(absence.remaining("u2", after(420)), None, "another job of that name");
        assert_eq!(absence.remaining("u1", after(1010)), None);
        assert_eq!(absence.remaining("u1", after(1020)), None, "until it is there again");
        absence.seen("u1");
        assert_eq!(absence.remaining("u1", after(1030)), Some(MIN_ABSENCE));
    }
}
