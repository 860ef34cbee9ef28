//! Knative services: the pods of a revision are one group, or each pod is one.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{int32, number};
use crate::base::{Context, group_name};
use crate::draft::{Draft, Least};
use crate::error::{Class, GroupError};
use crate::names;
use crate::object::Object;
use crate::objects::Key;

const REVISION: &str = "serving.knative.dev/revision";
const MIN_SCALE: &str = "autoscaling.knative.dev/min-scale";

pub(super) fn group(cx: &Context<'_>, _: &Object, _: &[Arc<Object>]) -> Result<Draft, GroupError> {
    let Some(name) = cx.pod.label(REVISION) else {
        return Err(GroupError::new(
            Class::KnativeRevisionLabel,
            cx.pod.shown(),
            format!("metadata.labels[{REVISION}]"),
            "the pod does not name its revision",
            "let Knative make the pod",
        ));
    };
    let key = Key::new("serving.knative.dev/v1", "Revision", cx.pod.namespace(), name);
    let revision = cx.read(&key)?;
    let mut draft = Draft {
        namespace: cx.pod.namespace().to_owned(),
        labels: cx.labels(&revision),
        annotations: cx.annotations(&revision),
        queue: cx.queue(&revision)?,
        ..Draft::default()
    };
    if !cx.config.knative_gang || is_one_by_one(cx, &revision)? {
        draft.priority_class = names::INFERENCE.to_owned();
        draft.name = group_name(cx.pod);
        draft.owner = cx.pod.reference();
        return Ok(draft);
    }
    draft.priority_class = cx.priority(&revision, names::INFERENCE)?;
    draft.name = group_name(&revision);
    draft.owner = revision.reference();
    let least = revision.annotation(MIN_SCALE).and_then(number).unwrap_or(1);
    let field = format!("metadata.annotations[{MIN_SCALE}]");
    draft.least = Least::Pods(int32(least, &revision, &field)?);
    Ok(draft)
}

/// Whether the revision's pods have a group each already: then it stays so.
fn is_one_by_one(cx: &Context<'_>, revision: &Object) -> Result<bool, GroupError> {
    let pods = cx.pods(&[(REVISION, revision.name())])?;
    let mut groups = BTreeSet::new();
    for group in pods.iter().filter_map(|pod| pod.annotation(names::GROUP)) {
        if !groups.insert(group) {
            return Ok(false);
        }
    }
    let only = match groups.len() {
        0 => return Ok(false),
        1 => groups.first().copied().unwrap_or_default(),
        _ => return Ok(true),
    };
    let key = Key::pod_group(cx.pod.namespace(), only);
    let Some(group) = cx.known(&key)? else { return Ok(false) };
    let owner = group.owners().into_iter().next().unwrap_or_default();
    if owner.kind == revision.kind() {
        return Ok(false);
    }
    if owner.kind == "Pod" {
        return Ok(true);
    }
    Err(GroupError::new(
        Class::KnativePodGroupOwner,
        key.to_string(),
        "metadata.ownerReferences",
        "its owner is neither a pod nor the revision",
        "delete the group; it is made anew",
    ))
}
