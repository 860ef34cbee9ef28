//! Grove: the PodGang that a pod names says which parts there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::int32;
use crate::base::{Context, is_preemptibility};
use crate::draft::{Draft, Least, SubGroup, Topology};
use crate::error::{Class, GroupError};
use crate::names;
use crate::object::{Field, Object};
use crate::objects::Key;
use muster_kube::duration;

const GANG: &str = "grove.io/podgang";
const TOPOLOGY: &str = "grove.io/topology-name";

pub(super) fn group(
    cx: &Context<'_>,
    top: &Object,
    _: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    let Some(name) = cx.pod.label(GANG) else {
        return Err(GroupError::new(
            Class::PodGangLabelMissing,
            cx.pod.shown(),
            format!("metadata.labels[{GANG}]"),
            "the pod does not name its PodGang",
            "let Grove make the pod",
        ));
    };
    let key = Key::new("scheduler.grove.io/v1alpha1", "PodGang", cx.pod.namespace(), name);
    let gang = cx.read(&key).map_err(|mut error| {
        if error.class == Class::NotFound {
            error.class = Class::PodGangNotFound;
        }
        error
    })?;
    let mut draft = cx.draft(&gang, &[])?;
    let named = gang.annotation(TOPOLOGY).or_else(|| gang.annotation(names::TOPOLOGY));
    let named = named.unwrap_or_default();
    let root = gang.root();
    if let Some(near) = packed(&root, &["spec"], named)? {
        draft.topology = near;
    }
    if let Some(class) = root.text(&["spec", "priorityClassName"])? {
        draft.priority_class = class.to_owned();
    }
    inherit(top, &gang, &mut draft)?;
    let parents = parents(&root, named, &mut draft.sub_groups)?;
    let mut total: i64 = 0;
    for part in root.objects(&["spec", "podgroups"])?.unwrap_or_default() {
        let (mut group, pods) = leaf(cx, &gang, &part, named)?;
        if let Least::Pods(least) = group.least {
            total = total.saturating_add(i64::from(least));
        }
        group.parent = parents.get(&group.name).cloned();
        if draft.member.is_none() && pods.contains(&cx.pod.name()) {
            draft.member = Some(group.name.clone());
        }
        draft.sub_groups.push(group);
    }
    draft.least = Least::Pods(int32(total, &gang, "spec.podgroups")?);
    Ok(draft)
}

/// What the top owner says and the PodGang does not.
fn inherit(top: &Object, gang: &Object, draft: &mut Draft) -> Result<(), GroupError> {
    for (key, value) in top.labels() {
        draft.labels.entry(key).or_insert(value);
    }
    for (key, value) in top.annotations() {
        draft.annotations.entry(key).or_insert(value);
    }
    if let Some(class) = draft.labels.get(names::PRIORITY) {
        draft.priority_class = class.clone();
    }
    if let Some(word) = draft.labels.get(names::PREEMPTIBILITY) {
        if !is_preemptibility(word) {
            let object = if gang.label(names::PREEMPTIBILITY).is_some() { gang } else { top };
            return Err(GroupError::new(
                Class::PodGangInvalid,
                object.shown(),
                format!("metadata.labels[{}]", names::PREEMPTIBILITY),
                format!("{word:?} is none of the words"),
                "write preemptible or non-preemptible",
            ));
        }
        draft.preemptibility = word.clone();
    }
    let delay = draft.annotations.get(names::PREEMPTION_DELAY);
    let delay =
        delay.and_then(|text| duration::parse(text).ok()).filter(|span| !span.is_negative());
    if let Some(span) = delay {
        draft.preemption_delay = Some(duration::print(span));
    }
    let Draft { topology, annotations, .. } = draft;
    let fill = |into: &mut String, key: &str| {
        if into.is_empty() {
            into.push_str(annotations.get(key).map_or("", String::as_str));
        }
    };
    fill(&mut topology.preferred, names::TOPOLOGY_PREFERRED);
    fill(&mut topology.required, names::TOPOLOGY_REQUIRED);
    fill(&mut topology.topology, names::TOPOLOGY);
    Ok(())
}

/// Parts that hold others, and who is in which.
fn parents(
    root: &Field<'_>,
    topology: &str,
    groups: &mut Vec<SubGroup>,
) -> Result<BTreeMap<String, String>, GroupError> {
    let mut parents = BTreeMap::new();
    let configs = root.objects(&["spec", "topologyConstraintGroupConfigs"])?.unwrap_or_default();
    for config in configs {
        let name = required(&config, "name", config.text(&["name"])?)?;
        let children = config.get(&["podGroupNames"])?.and_then(|names| names.as_array());
        let children: Vec<&str> =
            children.into_iter().flatten().filter_map(|name| name.as_str()).collect();
        if children.is_empty() {
            continue;
        }
        let count = i32::try_from(children.len()).unwrap_or(i32::MAX);
        parents.extend(children.iter().map(|child| ((*child).to_owned(), name.to_owned())));
        groups.push(SubGroup::inner(name, count).near(packed(&config, &[], topology)?));
    }
    Ok(parents)
}

/// A part of pods, and the names of the pods.
fn leaf<'a>(
    cx: &Context<'_>,
    gang: &Object,
    part: &Field<'a>,
    topology: &str,
) -> Result<(SubGroup, Vec<&'a str>), GroupError> {
    let name = required(part, "name", part.text(&["name"])?)?;
    let least = required(part, "minReplicas", part.int(&["minReplicas"])?)?;
    let invalid = |path: &[&str], detail: String, remedy| {
        part.error(Class::PodGangInvalid, path, detail, remedy)
    };
    if least <= 0 {
        let detail = format!("it is {least}");
        return Err(invalid(&["minReplicas"], detail, "write a number above 0"));
    }
    let references = required(part, "podReferences", part.objects(&["podReferences"])?)?;
    let mut pods = Vec::with_capacity(references.len());
    for reference in references {
        let namespace = required(&reference, "namespace", reference.text(&["namespace"])?)?;
        let pod = required(&reference, "name", reference.text(&["name"])?)?;
        if namespace != cx.pod.namespace() {
            let detail = format!("it names pod {namespace}/{pod} of another namespace");
            return Err(invalid(&["podReferences"], detail, "name pods of its own namespace"));
        }
        pods.push(pod);
    }
    let least = int32(least, gang, &part.at(&["minReplicas"]))?;
    Ok((SubGroup::leaf(name, least).near(packed(part, &[], topology)?), pods))
}

fn required<T>(part: &Field<'_>, key: &str, value: Option<T>) -> Result<T, GroupError> {
    value.ok_or_else(|| part.error(Class::PodGangInvalid, &[key], "it is not there", "add it"))
}

/// The levels that pods must or should share.
fn packed(
    field: &Field<'_>,
    above: &[&str],
    topology: &str,
) -> Result<Option<Topology>, GroupError> {
    let path = [above, &["topologyConstraint", "packConstraint"]].concat();
    let level = |key: &'static str| field.text(&[&path[..], &[key]].concat());
    let (preferred, required) = (level("preferred")?, level("required")?);
    if preferred.is_none() && required.is_none() {
        return Ok(None);
    }
    if topology.is_empty() {
        return Err(field.error(
            Class::PodGangInvalid,
            &path,
            "a topology level is asked for, and no topology is named",
            "add the annotation kai.scheduler/topology to the PodGang",
        ));
    }
    Ok(Some(Topology {
        topology: topology.to_owned(),
        required: required.unwrap_or_default().to_owned(),
        preferred: preferred.unwrap_or_default().to_owned(),
    }))
}
