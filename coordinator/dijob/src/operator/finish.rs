//! What is done about a job that has ended: services first, then pods, as its policy says.

use super::{Pass, ServiceSeen, Step, named, named_pod};
use crate::api::{DIJob, phase};
use crate::clean::CleanPodPolicy;
use crate::pod::Pod;

/// Which pods and services of a finished job are to be deleted.
pub fn finish(job: &DIJob, pods: &[&Pod], services: &[ServiceSeen], pass: &mut Pass) {
    let ours = services.iter().filter(|one| one.job == job.uid() && !one.terminating);
    let gone = ours.map(|one| Step::DeleteService(named(job, &one.name, &one.uid)));
    pass.steps.extend(gone);
    // What a person wrote wrong is not a reason to delete more than what runs.
    let policy =
        CleanPodPolicy::read(&job.spec.clean_pod_policy).unwrap_or(CleanPodPolicy::Running);
    let goes = |pod: &&&Pod| match policy {
        CleanPodPolicy::All => true,
        CleanPodPolicy::None => false,
        CleanPodPolicy::Running => {
            matches!(pod.phase(), "Running" | "Pending") && !pod.has_stopped()
        }
    };
    let ours = |pod: &&&Pod| {
        !pod.is_terminating() && pod.job().is_some_and(|owner| owner.uid == job.uid())
    };
    let gone = pods.iter().filter(ours).filter(goes);
    pass.steps.extend(gone.map(|pod| Step::DeletePod(named_pod(pod))));
    if pass.status.phase == phase::SUCCEEDED {
        for counts in pass.status.replica_status.iter_mut().flat_map(|all| all.values_mut()) {
            counts.succeeded = counts.succeeded.saturating_add(counts.active);
            counts.active = 0;
        }
    }
}
