//! DIJobs: the coordinator comes first and asks for the others. Learners are placed together, with all learners that
//! the coordinator has asked for so far; collectors come and go one by one.

use std::sync::Arc;

use super::int32;
use crate::base::Context;
use crate::draft::{Draft, Least, SubGroup};
use crate::error::{Class, GroupError};
use crate::object::Object;

const JOB: &str = "dijob-name";
const TYPE: &str = "replica-type";
const COORDINATOR: &str = "coordinator";
const LEARNER: &str = "learner";
const COLLECTOR: &str = "collector";

pub(super) fn group(
    cx: &Context<'_>,
    top: &Object,
    _: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    let mut draft = cx.draft(top, &[])?;
    let kind = cx.pod.label(TYPE).unwrap_or_default();
    let member = part(kind).ok_or_else(|| {
        GroupError::new(
            Class::DiJobInvalid,
            cx.pod.shown(),
            format!("metadata.labels[{TYPE}]"),
            format!("{kind:?} is no part of a DIJob"),
            "let the DIJob controller make the pod",
        )
    })?;
    let pods = cx.pods(&[(JOB, cx.pod.label(JOB).unwrap_or_default())])?;
    let is_other_learner = |pod: &&Arc<Object>| {
        !pod.is_deleting()
            && pod.name() != cx.pod.name()
            && pod.label(TYPE).and_then(part) == Some(LEARNER)
    };
    let others = pods.iter().filter(is_other_learner).count();
    let own = usize::from(member == LEARNER && !cx.pod.is_deleting());
    let learners = i64::try_from(others.saturating_add(own)).unwrap_or(i64::MAX);
    let learners = int32(learners, top, "spec.learner")?;
    draft.sub_groups = vec![
        SubGroup::leaf(COORDINATOR, 1),
        SubGroup::leaf(LEARNER, learners),
        SubGroup::leaf(COLLECTOR, 0),
    ];
    draft.least = Least::Pods(learners.saturating_add(1));
    draft.member = Some(member.to_owned());
    Ok(draft)
}

fn part(kind: &str) -> Option<&'static str> {
    match kind {
        "coordinator" => Some(COORDINATOR),
        "learner" | "aggregator" | "ddp-learner" => Some(LEARNER),
        "collector" => Some(COLLECTOR),
        _ => None,
    }
}
