//! The pods of a job as one gang with elastic collectors.
//!
//! A job that names a queue (label `kai.scheduler/queue`, or annotation `scheduling.volcano.sh/queue-name`) hands it to
//! all its pods. They are one pod group, since they have one owner. Which of them come first is said by a number: the
//! coordinator, then learners, and collectors last; they are the ones that may be fewer.

use muster_kube::names::{QUEUE, VOLCANO_QUEUE};

use crate::api::DIJob;
use crate::pod::Pod;
use crate::role::Role;

/// Label: which pods of a group come first.
pub const ORDER: &str = "kai.scheduler/task-priority";

/// Marks a pod. What its template says stays.
pub fn mark(job: &DIJob, role: Role, pod: &mut Pod) {
    let said = |all: &Option<std::collections::BTreeMap<String, String>>, key: &str| {
        all.as_ref().and_then(|all| all.get(key)).filter(|queue| !queue.is_empty()).cloned()
    };
    if let Some(queue) = said(&job.metadata.annotations, VOLCANO_QUEUE) {
        pod.annotations_mut().entry(VOLCANO_QUEUE.to_owned()).or_insert(queue);
    }
    if let Some(queue) = said(&job.metadata.labels, QUEUE) {
        let order = match role {
            Role::Coordinator => 300,
            Role::Learner | Role::Aggregator | Role::DdpLearner => 200,
            Role::Collector => 100,
        };
        let labels = pod.labels_mut();
        labels.entry(QUEUE.to_owned()).or_insert(queue);
        labels.entry(ORDER.to_owned()).or_insert(order.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_come_last_in_the_queue_of_the_job() {
        let mut job = DIJob::default();
        let mut bare = Pod::default();
        mark(&job, Role::Learner, &mut bare);
        assert_eq!(bare, Pod::default(), "without a queue nothing is marked");
        job.metadata.labels = Some([(QUEUE.to_owned(), "rl".to_owned())].into());
        let order = |role| {
            let mut pod = Pod::default();
            mark(&job, role, &mut pod);
            assert_eq!(pod.label(QUEUE), "rl");
            pod.label(ORDER).parse::<u32>().unwrap()
        };
        let orders = [Role::Coordinator, Role::DdpLearner, Role::Collector].map(order);
        assert!(orders.is_sorted_by(|one, next| one > next), "{orders:?}");
        let mut own = Pod::default();
        own.labels_mut().insert(QUEUE.to_owned(), "mine".to_owned());
        mark(&job, Role::Learner, &mut own);
        assert_eq!(own.label(QUEUE), "mine", "what the template says stays");
    }
}
