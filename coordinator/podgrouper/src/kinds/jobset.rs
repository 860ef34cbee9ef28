//! JobSets: a part for each replicated job, and in it a part for each of its jobs.

use std::sync::Arc;

use super::batch::{min_member, min_member_error};
use super::ray::has_parts;
use super::{int32, number};
use crate::base::{Context, named, topology};
use crate::draft::{Draft, Least, SubGroup, Topology};
use crate::error::{Class, GroupError};
use crate::names;
use crate::object::{Field, Object};

const REPLICATED_JOB: &str = "jobset.sigs.k8s.io/replicatedjob-name";
const INDEX: &str = "jobset.sigs.k8s.io/job-index";
/// More parts than an object of Kubernetes can hold.
const MOST_PARTS: i64 = 20_000;

pub(super) fn group(
    cx: &Context<'_>,
    top: &Object,
    _: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    let root = top.root();
    let path = ["spec", "replicatedJobs"];
    let jobs = root.objects(&path)?.unwrap_or_default();
    if jobs.is_empty() {
        return Err(root.error(Class::JobSetInvalid, &path, "there are none", "add one"));
    }
    let name = named(top.name(), top.uid());
    // Older releases made groups without parts. Where there is one, it stays so.
    let of_older = |group: &Arc<Object>| {
        let rest = group.name().strip_prefix(&name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) && !has_parts(group)
    };
    if cx.pod_groups(&name)?.iter().any(of_older) {
        return flat(cx, top, &name);
    }
    let mut draft = cx.draft(top, &[])?;
    let count = int32(i64::try_from(jobs.len()).unwrap_or(i64::MAX), top, &root.at(&path))?;
    draft.least = Least::Parts(least_jobs(top, count)?);
    draft.name = name;
    let mut parts: i64 = 0;
    for job in &jobs {
        parts = parts.saturating_add(job.int(&["replicas"])?.unwrap_or(1).max(0));
        if parts > MOST_PARTS {
            let detail = format!("there are more than {MOST_PARTS} jobs");
            return Err(root.error(Class::NumberTooLarge, &path, detail, "ask for fewer"));
        }
        tree(top, job, &mut draft.sub_groups)?;
    }
    let part = format!("{}-replica-{}", label(cx, REPLICATED_JOB)?, label(cx, INDEX)?);
    if !draft.sub_groups.iter().any(|group| group.name == part) {
        return Err(GroupError::new(
            Class::JobSetInvalid,
            cx.pod.shown(),
            format!("metadata.labels[{INDEX}]"),
            format!("{} has no {part}", top.shown()),
            "delete the pod: its job is no longer part of the set",
        ));
    }
    draft.member = Some(part);
    Ok(draft)
}

/// How many replicated jobs must be there at once.
fn least_jobs(top: &Object, count: i32) -> Result<i32, GroupError> {
    if let Some(least) = min_member(top)? {
        if least < 1 {
            return Err(min_member_error(top, &least.to_string()));
        }
        return Ok(least.min(count));
    }
    let order = top.root().text(&["spec", "startupPolicy", "startupPolicyOrder"])?;
    // In order: the next one is made only when the one before runs.
    Ok(if order == Some("InOrder") { 1 } else { count })
}

fn tree(top: &Object, job: &Field<'_>, parts: &mut Vec<SubGroup>) -> Result<(), GroupError> {
    let name = job.text(&["name"]).ok().flatten().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| {
        job.error(Class::JobSetInvalid, &["name"], "it has no name", "give it one")
    })?;
    let replicas = job.int(&["replicas"])?.unwrap_or(1);
    let replicas = int32(replicas, top, &job.at(&["replicas"]))?;
    let least = least_pods(top, job)?;
    let annotations = annotations(job)?;
    let word = |key: &str| annotations.as_ref()?.value().get(key)?.as_str();
    let near = Some(topology(word)).filter(Topology::is_asked);
    parts.push(SubGroup::inner(name, replicas));
    for at in 0..replicas {
        let part = SubGroup::leaf(format!("{name}-replica-{at}"), least).within(name);
        parts.push(part.near(near.clone()));
    }
    Ok(())
}

/// How many pods of a job must be there at once.
fn least_pods(top: &Object, job: &Field<'_>) -> Result<i32, GroupError> {
    let path = ["template", "spec", "parallelism"];
    let parallelism = int32(job.int(&path)?.unwrap_or(1), top, &job.at(&path))?;
    let annotations = annotations(job)?;
    let text = match &annotations {
        Some(annotations) => annotations.text(&[names::MIN_MEMBER])?.unwrap_or_default(),
        None => "",
    };
    if text.is_empty() {
        return Ok(parallelism);
    }
    let least = number(text).and_then(|least| i32::try_from(least).ok());
    least.filter(|least| *least >= 1).ok_or_else(|| {
        let mut error = min_member_error(top, text);
        error.field = job.at(&["template", "metadata", "annotations", names::MIN_MEMBER]);
        error
    })
}

/// The annotations of a job's template, of which those that are read are text.
fn annotations<'a>(job: &Field<'a>) -> Result<Option<Field<'a>>, GroupError> {
    let annotations = job.field(&["template", "metadata", "annotations"])?;
    if let Some(annotations) = &annotations {
        for key in [names::TOPOLOGY, names::TOPOLOGY_REQUIRED, names::TOPOLOGY_PREFERRED] {
            annotations.text(&[key])?;
        }
    }
    Ok(annotations)
}

fn label<'a>(cx: &Context<'a>, key: &str) -> Result<&'a str, GroupError> {
    let value = cx.pod.label(key).filter(|value| !value.is_empty());
    value.ok_or_else(|| {
        GroupError::new(
            Class::PodLabelMissing,
            cx.pod.shown(),
            format!("metadata.labels[{key}]"),
            "the pod does not say which part of its JobSet it is",
            "let the JobSet controller make the pod",
        )
    })
}

fn flat(cx: &Context<'_>, top: &Object, name: &str) -> Result<Draft, GroupError> {
    let mut draft = cx.draft(top, &[])?;
    let job = label(cx, REPLICATED_JOB)?;
    let order = top.root().text(&["spec", "startupPolicy", "startupPolicyOrder"])?;
    draft.name = if order == Some("InOrder") { format!("{name}-{job}") } else { name.to_owned() };
    draft.least = Least::Pods(min_member(top)?.unwrap_or(1));
    Ok(draft)
}
