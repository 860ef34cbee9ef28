//! ModelServings of both shapes: a group for each serving group, and in it a part for each role.
//!
//! ```text
//!   llm-0 ── prefill (2 of 3) ── prefill-0 (4 pods) · prefill-1 · prefill-2
//!        └── decode (1 pod)
//! ```
//!
//! An instance of several pods is a part of its own; instances of one pod are counted by their role.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_modelserving::api::Role;
use muster_modelserving::defaults;
use muster_modelserving::naming::{GROUP, NAME, ROLE, ROLE_ID, parent_and_ordinal};
use muster_modelserving::shape::{Serving, Shape};

use super::int32;
use crate::base::{Context, topology};
use crate::draft::{Draft, Least, SubGroup, Topology};
use crate::error::{Class, GroupError};
use crate::names;
use crate::object::Object;

/// More instances than a group can list.
const MOST_PARTS: i64 = 20_000;

pub(super) fn group(
    cx: &Context<'_>,
    top: &Object,
    _: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    let mut draft = cx.draft(top, &[])?;
    draft.priority_class = cx.priority(top, names::INFERENCE)?;
    let mut raw = top.raw().clone();
    if let Some(shape) = Shape::of(top.api_version()) {
        defaults::fill(shape, &mut raw);
    }
    let serving = Serving::read(&raw).map_err(|why| {
        let remedy = "run musterctl modelserving check";
        GroupError::new(Class::ModelServingInvalid, top.shown(), why.field, why.why, remedy)
    })?;
    let template = serving.into_model_serving().spec.template;
    let least = template.gang_policy.and_then(|gang| gang.min_role_replicas).unwrap_or_default();
    let group = label(cx, GROUP)?;
    let (role, id) = (label(cx, ROLE)?, label(cx, ROLE_ID)?);
    let (_, ordinal) = parent_and_ordinal(group);
    draft.name = format!("{}-group-{}", draft.name, ordinal.max(0));
    let mut count: i64 = 0;
    for part in &template.roles {
        let wanted = i64::from(part.replicas.unwrap_or(1)).max(0);
        let needed =
            least.get(&part.name).map_or(wanted, |least| i64::from(*least).clamp(0, wanted));
        if part.worker_replicas <= 0 {
            count += 1;
            let needed = int32(needed, top, "spec.template.roles")?;
            draft.sub_groups.push(SubGroup::leaf(&part.name, needed).near(near(part)));
            continue;
        }
        let ids = instances(cx, group, part, wanted, id)?;
        if ids.is_empty() {
            continue;
        }
        count += 1;
        let needed = int32(needed, top, "spec.template.roles")?;
        draft.sub_groups.push(SubGroup::inner(&part.name, needed));
        for at in ids {
            let leaf = SubGroup::leaf(at, part.worker_replicas.saturating_add(1));
            draft.sub_groups.push(leaf.within(&part.name).near(near(part)));
        }
    }
    check(cx, top, &draft)?;
    draft.least = Least::Parts(int32(count, top, "spec.template.roles")?);
    let mine = |name: &str| draft.sub_groups.iter().find(|part| part.name == name);
    let member = match mine(role).map(|part| part.least) {
        Some(Least::Pods(_)) => Some(role),
        _ => mine(id).map(|_| id),
    };
    let member = member.map(str::to_owned).ok_or_else(|| {
        GroupError::new(
            Class::ModelServingInvalid,
            cx.pod.shown(),
            format!("metadata.labels[{ROLE}]"),
            format!("{} has no role {role}", top.shown()),
            "delete the pod: its role is gone",
        )
    })?;
    draft.member = Some(member);
    Ok(draft)
}

/// The instances of a role: those that are wanted and those that still are, by number.
fn instances(
    cx: &Context<'_>,
    group: &str,
    role: &Role,
    wanted: i64,
    own: &str,
) -> Result<Vec<String>, GroupError> {
    let labels = [(NAME, label(cx, NAME)?), (GROUP, group), (ROLE, role.name.as_str())];
    let pods = cx.pods(&labels)?;
    let seen = pods.iter().filter(|pod| !pod.is_deleting()).filter_map(|pod| pod.label(ROLE_ID));
    let ordinal = |id: &str| match parent_and_ordinal(id) {
        (parent, at) if parent == role.name && at >= 0 => Some(at),
        _ => None,
    };
    let mut all: BTreeSet<i64> = seen.chain([own]).filter_map(ordinal).collect();
    all.extend(0..wanted.min(MOST_PARTS));
    Ok(all.into_iter().map(|at| format!("{}-{at}", role.name)).collect())
}

/// What the annotations of a role's entry say of its topology.
fn near(role: &Role) -> Option<Topology> {
    let annotations = role.entry_template.metadata.as_ref()?.annotations.as_ref()?;
    let near = topology(|key| annotations.get(key).map(String::as_str));
    Some(near).filter(Topology::is_asked)
}

/// Two parts of one name, such as role `a-0` beside instance 0 of role `a`, cannot be told apart.
fn check(cx: &Context<'_>, top: &Object, draft: &Draft) -> Result<(), GroupError> {
    let mut seen = BTreeSet::new();
    let twice = draft.sub_groups.iter().find(|part| !seen.insert(&part.name));
    let Some(twice) = twice else { return Ok(()) };
    let detail = format!("two parts of the group of {} are called {}", cx.pod.shown(), twice.name);
    let remedy = "rename one of the roles";
    Err(GroupError::new(
        Class::DuplicateSubGroup,
        top.shown(),
        "spec.template.roles",
        detail,
        remedy,
    ))
}

fn label<'a>(cx: &Context<'a>, key: &str) -> Result<&'a str, GroupError> {
    let value = cx.pod.label(key).filter(|value| !value.is_empty());
    value.ok_or_else(|| {
        GroupError::new(
            Class::PodLabelMissing,
            cx.pod.shown(),
            format!("metadata.labels[{key}]"),
            "the pod does not say which part of its ModelServing it is",
            "let the ModelServing controller make the pod",
        )
    })
}
