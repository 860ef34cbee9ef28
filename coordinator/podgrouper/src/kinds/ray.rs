//! Ray: a head, and a part for each group of workers.

use std::sync::Arc;

use super::int32;
use crate::base::{Context, topology};
use crate::draft::{Draft, Least, SubGroup, Topology};
use crate::error::{Class, GroupError};
use crate::object::{Field, Object};
use crate::objects::Key;

const GROUP: &str = "ray.io/group";
const HEAD: &str = "headgroup";
const PRIORITY: &str = "ray.io/priority-class-name";

pub(super) fn cluster(
    cx: &Context<'_>,
    top: &Object,
    _: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    group(cx, top, top)
}

pub(super) fn job(cx: &Context<'_>, top: &Object, _: &[Arc<Object>]) -> Result<Draft, GroupError> {
    let cluster = named_cluster(cx, top, &[&["status", "rayClusterName"]])?;
    group(cx, top, &cluster)
}

pub(super) fn service(
    cx: &Context<'_>,
    top: &Object,
    _: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    let paths: [&[&str]; 2] = [
        &["status", "activeServiceStatus", "rayClusterName"],
        &["status", "pendingServiceStatus", "rayClusterName"],
    ];
    let cluster = named_cluster(cx, top, &paths)?;
    group(cx, top, &cluster)
}

/// The RayCluster that the first of these fields names.
fn named_cluster(
    cx: &Context<'_>,
    top: &Object,
    paths: &[&[&str]],
) -> Result<Arc<Object>, GroupError> {
    let root = top.root();
    let mut name = None;
    for path in paths {
        if name.is_none() {
            name = root.text(path)?;
        }
    }
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Err(root.error(
            Class::RayClusterNameMissing,
            paths.first().copied().unwrap_or_default(),
            "no RayCluster is named yet",
            "wait until the Ray operator has made the cluster",
        ));
    };
    cx.read(&Key::new(top.api_version(), "RayCluster", top.namespace(), name))
}

fn group(cx: &Context<'_>, top: &Object, cluster: &Object) -> Result<Draft, GroupError> {
    let mut draft = cx.draft(top, &[])?;
    let (least, parts) = parts(cluster)?;
    draft.least = Least::Pods(least);
    // A group that an older release made without parts stays without.
    let old = cx.find(&Key::pod_group(&draft.namespace, &draft.name))?;
    if old.is_none_or(|old| has_parts(&old)) {
        draft.sub_groups = parts;
    }
    if let Some(class) = top.label(PRIORITY) {
        draft.priority_class = class.to_owned();
    }
    let part = cx.pod.label(GROUP);
    let there = part.filter(|part| draft.sub_groups.iter().any(|group| group.name == *part));
    draft.member = there.map(str::to_owned);
    Ok(draft)
}

/// Whether a PodGroup has parts.
pub(super) fn has_parts(group: &Object) -> bool {
    let parts = group.raw().pointer("/spec/subGroups").and_then(|parts| parts.as_array());
    parts.is_some_and(|parts| !parts.is_empty())
}

fn parts(cluster: &Object) -> Result<(i32, Vec<SubGroup>), GroupError> {
    let root = cluster.root();
    let head = match root.map(&["spec", "headGroupSpec"])? {
        Some(_) => root.field(&["spec", "headGroupSpec"])?,
        None => None,
    };
    let near = head.as_ref().map(template_topology).transpose()?.flatten();
    let mut parts = vec![SubGroup::leaf(HEAD, 1).near(near)];
    let mut total: i64 = 1;
    let groups = root.objects(&["spec", "workerGroupSpecs"])?.unwrap_or_default();
    for (at, spec) in groups.iter().enumerate() {
        let Some(replicas) = replicas(spec)? else { continue };
        let hosts = spec.int(&["numOfHosts"])?.unwrap_or(1);
        let least = int32(replicas.saturating_mul(hosts), cluster, &spec.at(&["replicas"]))?;
        total = total.saturating_add(i64::from(least));
        let name = spec.text(&["groupName"]).ok().flatten().filter(|name| !name.is_empty());
        let name = name.map_or_else(|| format!("worker-group-{at}"), str::to_owned);
        parts.push(SubGroup::leaf(name, least).near(template_topology(spec)?));
    }
    Ok((int32(total, cluster, &root.at(&["spec", "workerGroupSpecs"]))?, parts))
}

/// How many workers a group must have; nothing if it has none now.
fn replicas(spec: &Field<'_>) -> Result<Option<i64>, GroupError> {
    if spec.boolean(&["suspended"])?.unwrap_or(false) {
        return Ok(None);
    }
    let replicas = spec.int(&["replicas"])?.unwrap_or(0);
    let least = spec.int(&["minReplicas"])?.unwrap_or(0);
    if least > replicas {
        return Err(spec.error(
            Class::RayMinExceedsReplicas,
            &["minReplicas"],
            format!("it is {least}, and there are {replicas} replicas"),
            "raise replicas to it, or lower it",
        ));
    }
    if least == 0 && replicas == 0 {
        return Ok(None);
    }
    Ok(Some(if least > 0 { least } else { replicas }))
}

/// What the annotations of a group's template say of its topology.
fn template_topology(spec: &Field<'_>) -> Result<Option<Topology>, GroupError> {
    let path = ["template", "metadata", "annotations"];
    let annotations = spec.field(&path)?;
    for key in
        [crate::names::TOPOLOGY, crate::names::TOPOLOGY_REQUIRED, crate::names::TOPOLOGY_PREFERRED]
    {
        annotations.as_ref().map(|annotations| annotations.text(&[key])).transpose()?;
    }
    let word = |key: &str| annotations.as_ref()?.value().get(key)?.as_str();
    let near = topology(word);
    if near.required.is_empty() && near.preferred.is_empty() {
        return Ok(None);
    }
    if near.topology.is_empty() {
        return Err(spec.error(
            Class::TopologyMissing,
            &path,
            "a topology level is asked for, and no topology is named",
            "add the annotation kai.scheduler/topology",
        ));
    }
    Ok(Some(near))
}
