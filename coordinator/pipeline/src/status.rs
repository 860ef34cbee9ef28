//! How far a job is, as its JobSet says.

use muster_api::job_set::JobSet;
use muster_api::{TrainJob, TrainJobStatus};

use crate::conditions::{self, COMPLETE, FAILED, JOB_SET_COMPLETED, JOB_SET_FAILED, Wanted};

/// The status of a job with this JobSet: its own, with what the JobSet says. Reports of the trainer and other conditions
/// stay.
pub fn from_job_set(job: &TrainJob, job_set: &JobSet) -> TrainJobStatus {
    let mut status = job.status.clone().unwrap_or_default();
    let said = job_set.status.clone().unwrap_or_default();
    for (theirs, ours) in [(JOB_SET_COMPLETED, COMPLETE), (JOB_SET_FAILED, FAILED)] {
        let holds = said.conditions.iter().find(|c| c.type_ == theirs && c.status == "True");
        if let Some(condition) = holds {
            let wanted = Wanted {
                kind: ours,
                holds: true,
                reason: &condition.reason,
                message: &condition.message,
                since: condition.last_transition_time.0,
            };
            conditions::set(&mut status.conditions, &wanted);
        }
    }
    status.jobs_status = said.replicated_jobs_status.iter().map(Into::into).collect();
    status
}
