//! Jobs and CronJobs: one group per Job. An annotation says how many of its pods must be there at once.

use std::sync::Arc;

use super::number;
use crate::base::{Context, named};
use crate::draft::{Draft, Least};
use crate::error::{Class, GroupError};
use crate::names;
use crate::object::Object;
use crate::objects::Key;

pub(super) fn job(cx: &Context<'_>, top: &Object, _: &[Arc<Object>]) -> Result<Draft, GroupError> {
    let mut draft = cx.draft(top, &[])?;
    // Older releases made a group for each pod. Where there is one, the pod stays in it.
    let legacy = named(cx.pod.name(), top.uid());
    if cx.config.legacy_groups
        && legacy != draft.name
        && cx.known(&Key::pod_group(cx.pod.namespace(), &legacy))?.is_some()
    {
        draft.name = legacy;
        return Ok(draft);
    }
    if let Some(least) = min_member(top)? {
        draft.least = Least::Pods(least);
    }
    Ok(draft)
}

pub(super) fn cron_job(
    cx: &Context<'_>,
    _: &Object,
    _: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    let owner = cx.pod.owners().into_iter().find(|owner| owner.kind == "Job");
    let owner = owner.ok_or_else(|| {
        GroupError::new(
            Class::CronJobJobMissing,
            cx.pod.shown(),
            "metadata.ownerReferences",
            "the pod of a CronJob has no Job as owner",
            "let the CronJob make its pods",
        )
    })?;
    let job = cx.read(&Key::new("batch/v1", "Job", cx.pod.namespace(), &owner.name))?;
    cx.draft(&job, &[])
}

/// What the annotation of the minimum says.
pub(super) fn min_member(object: &Object) -> Result<Option<i32>, GroupError> {
    let Some(text) = object.annotation(names::MIN_MEMBER) else { return Ok(None) };
    match number(text).and_then(|number| i32::try_from(number).ok()) {
        Some(least) => Ok(Some(least)),
        None => Err(min_member_error(object, text)),
    }
}

/// It says nothing that can be used.
pub(super) fn min_member_error(object: &Object, text: &str) -> GroupError {
    GroupError::new(
        Class::MinMemberAnnotation,
        object.shown(),
        format!("metadata.annotations[{}]", names::MIN_MEMBER),
        format!("{text:?} is no such number"),
        "write a whole number from 1 to 2147483647",
    )
}
