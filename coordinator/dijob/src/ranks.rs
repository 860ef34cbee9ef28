//! DDP learners that share a rank table.
//!
//! A job with the annotation `muster.dev/ranktable-template` wants tables: the DDP learners of one aggregator are a rank
//! group, called as the aggregator is. The ranktable controller does the rest.

use muster_kube::rank_group::{COPIED, Marks, RANKTABLE_TEMPLATE, annotation};

use crate::api::DIJob;
use crate::make::Part;
use crate::pod::Pod;

/// Annotation: a pod's number in its group.
pub const INDEX: &str = "hccl/rankIndex";

/// Marks a DDP learner of this aggregator.
pub fn mark(job: &DIJob, aggregator: &str, part: &Part, pod: &mut Pod) {
    let said = job.metadata.annotations.as_ref();
    let Some((_, template)) = annotation(said, &RANKTABLE_TEMPLATE) else { return };
    let mut marks = Marks::new(aggregator.to_owned(), part.pods, template).copying(said, &COPIED);
    marks.annotations.insert(INDEX.to_owned(), part.index.to_string());
    let (mut labels, mut annotations) = (
        pod.metadata.labels.take().unwrap_or_default(),
        pod.metadata.annotations.take().unwrap_or_default(),
    );
    marks.put_on(&mut labels, &mut annotations);
    Marks::follow_pods(&mut annotations);
    pod.metadata.labels = Some(labels);
    pod.metadata.annotations = Some(annotations);
}

#[cfg(test)]
mod tests {
    use muster_kube::rank_group::{RANK_GROUP, RANK_GROUP_SIZE, RANKTABLE_ORDER};

    use super::*;

    fn part() -> Part {
        Part { world: 10, share: 2, start: 8, split: true, index: 1, pods: 2 }
    }

    #[test]
    fn learners_of_an_aggregator_are_a_rank_group_if_the_job_wants_tables() {
        let (mut job, mut pod) = (DIJob::default(), Pod::default());
        mark(&job, "a-aggregator-bcdfg", &part(), &mut pod);
        assert_eq!(pod, Pod::default(), "nobody has asked");
        let wants =
            [("muster.dev/ranktable-template", "ascend"), ("kthena.io/ranktable-timeout", "5m")];
        let wants = wants.map(|(key, value)| (key.to_owned(), value.to_owned()));
        job.metadata.annotations = Some(wants.into());
        mark(&job, "a-aggregator-bcdfg", &part(), &mut pod);
        assert_eq!(pod.label(RANK_GROUP), "a-aggregator-bcdfg");
        assert_eq!(pod.annotation(RANK_GROUP_SIZE), Some("2"));
        assert_eq!(pod.annotation("muster.dev/ranktable-template"), Some("ascend"));
        assert_eq!(pod.annotation("kthena.io/ranktable-timeout"), Some("5m"));
        assert_eq!(pod.annotation(INDEX), Some("1"));
        assert_eq!(pod.annotation(RANKTABLE_ORDER[0]), Some("pod"));
    }
}
