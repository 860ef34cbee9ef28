//! LeaderWorkerSets: a group for each replica, with a leader and workers, the workers in segments if asked for.

mod segments;

use std::sync::Arc;

use muster_modelserving::shape::Shape;

use super::{int32, number};
use crate::base::Context;
use crate::draft::{Draft, Least, SubGroup};
use crate::error::{Class, GroupError};
use crate::object::Object;

const SIZE: [&str; 3] = ["spec", "leaderWorkerTemplate", "size"];
const SIZE_ANNOTATION: &str = "leaderworkerset.sigs.k8s.io/size";
const GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";
const WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";
const LEADER: &str = "leader";
const WORKERS: &str = "workers";

pub(super) fn group(
    cx: &Context<'_>,
    top: &Object,
    owners: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    let mut draft = cx.draft(top, &[])?;
    let root = top.root();
    let size = size(top)?;
    let policy = root.text(&["spec", "startupPolicy"])?.unwrap_or("LeaderCreated");
    let index = worker_index(cx)?;
    let least = match policy {
        "LeaderCreated" => size,
        // A ModelServing creates workers together with their leader, whatever the policy says.
        "LeaderReady" if owners.iter().any(|owner| is_serving(owner)) => size,
        "LeaderReady" => ready(cx, size),
        other => {
            return Err(root.error(
                Class::LwsStartupPolicy,
                &["spec", "startupPolicy"],
                format!("{other:?} is none of the words"),
                "write LeaderCreated or LeaderReady",
            ));
        }
    };
    draft.least = Least::Pods(least);
    match segments::read(cx, top, least)? {
        Some(segments) => {
            let (parts, member) = segments.parts(index)?;
            draft.sub_groups = parts;
            draft.member = Some(member);
        }
        None => plain(cx, least, &mut draft),
    }
    if let Some(at) = cx.pod.label(GROUP_INDEX).and_then(number) {
        draft.name = format!("{}-group-{at}", draft.name);
    }
    Ok(draft)
}

fn size(top: &Object) -> Result<i32, GroupError> {
    let root = top.root();
    let Some(size) = root.int(&SIZE)? else {
        return Err(root.error(Class::LwsSizeMissing, &SIZE, "it is not there", "add it"));
    };
    if size <= 0 {
        let detail = format!("it is {size}");
        return Err(root.error(Class::LwsSizeInvalid, &SIZE, detail, "write a number above 0"));
    }
    int32(size, top, &root.at(&SIZE))
}

/// Whether the pods are those of a ModelServing that was made of the LeaderWorkerSet.
fn is_serving(owner: &Object) -> bool {
    owner.kind() == muster_modelserving::api::KIND
        && Shape::of(owner.api_version()) == Some(Shape::Kthena)
}

fn is_leader(cx: &Context<'_>) -> bool {
    cx.pod.label(WORKER_INDEX) == Some("0")
}

/// The pod's number in its group, if it says it.
fn worker_index(cx: &Context<'_>) -> Result<Option<i64>, GroupError> {
    let Some(text) = cx.pod.label(WORKER_INDEX) else { return Ok(None) };
    match number(text).filter(|index| *index >= 0) {
        Some(index) => Ok(Some(index)),
        None => Err(index_error(cx, format!("{text:?} is no worker's number"))),
    }
}

fn index_error(cx: &Context<'_>, detail: String) -> GroupError {
    GroupError::new(
        Class::PodIndexInvalid,
        cx.pod.shown(),
        format!("metadata.labels[{WORKER_INDEX}]"),
        detail,
        "let the LeaderWorkerSet controller make the pod",
    )
}

/// Workers are made when the leader is ready: until it has a node, only the leader is waited for.
fn ready(cx: &Context<'_>, size: i32) -> i32 {
    let node = cx.pod.raw().pointer("/spec/nodeName").and_then(|node| node.as_str());
    if is_leader(cx) && node.unwrap_or_default().is_empty() {
        return 1;
    }
    let said = cx.pod.annotation(SIZE_ANNOTATION).and_then(number);
    said.and_then(|size| i32::try_from(size).ok()).unwrap_or(size)
}

fn plain(cx: &Context<'_>, least: i32, draft: &mut Draft) {
    draft.sub_groups.push(SubGroup::leaf(LEADER, 1));
    if least > 1 {
        draft.sub_groups.push(SubGroup::leaf(WORKERS, least - 1));
    }
    draft.member = match (is_leader(cx), least > 1) {
        (true, _) => Some(LEADER.to_owned()),
        (false, true) => Some(WORKERS.to_owned()),
        (false, false) => None,
    };
}
