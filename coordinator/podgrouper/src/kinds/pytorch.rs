//! PyTorchJobs: a master and workers, the workers in segments if an annotation asks for them.

use std::sync::Arc;

use super::{int32, kubeflow, number};
use crate::base::Context;
use crate::draft::{Draft, Least, SubGroup, Topology};
use crate::error::{Class, GroupError};
use crate::names;
use crate::object::{Field, Object};

const SPECS: &str = "pytorchReplicaSpecs";
const TYPE: &str = "training.kubeflow.org/replica-type";
const INDEX: &str = "training.kubeflow.org/replica-index";
/// More segments than any job has.
pub(super) const MOST_SEGMENTS: i64 = 10_000;

pub(super) fn group(
    cx: &Context<'_>,
    top: &Object,
    _: &[Arc<Object>],
) -> Result<Draft, GroupError> {
    let mut draft = kubeflow::distributed(cx, top, SPECS, &[])?;
    let root = top.root();
    for path in [&["spec", "elasticPolicy", "minReplicas"][..], &kubeflow::MIN_AVAILABLE] {
        if let Ok(Some(least)) = root.int(path) {
            draft.least = Least::Pods(int32(least, top, &root.at(path))?);
        }
    }
    let least = match draft.least {
        Least::Pods(least) | Least::Parts(least) => i64::from(least),
    };
    let Some(specs) = root.field(&["spec", SPECS])? else {
        return Err(root.error(
            Class::MissingReplicaSpecs,
            &["spec", SPECS],
            "the job has none",
            "say there which pods the job has",
        ));
    };
    let masters = specs.int(&["Master", "replicas"])?.unwrap_or(0);
    if masters != 0 {
        let least = int32(masters, top, &specs.at(&["Master", "replicas"]))?;
        draft.sub_groups.push(SubGroup::leaf("master", least));
    }
    if specs.get(&["Worker"])?.is_some() {
        let job = Workers { cx, top, specs: &specs };
        draft.sub_groups.extend(job.parts(least.saturating_sub(masters).max(0))?);
    }
    let part = match cx.pod.label(TYPE) {
        Some("worker") => Workers { cx, top, specs: &specs }.part_of_pod()?,
        Some("master") => Some("master".to_owned()),
        _ => None,
    };
    draft.member = part.filter(|part| draft.sub_groups.iter().any(|group| group.name == *part));
    Ok(draft)
}

/// The workers of a job, seen from a pod.
struct Workers<'a> {
    cx: &'a Context<'a>,
    top: &'a Object,
    specs: &'a Field<'a>,
}

// === impl Workers ===

impl Workers<'_> {
    fn parts(&self, least: i64) -> Result<Vec<SubGroup>, GroupError> {
        let path = ["Worker", "replicas"];
        let all = int32(least, self.top, &self.specs.at(&path))?;
        let flat = vec![SubGroup::leaf("worker", all)];
        let Some((size, segments)) = self.segments()? else { return Ok(flat) };
        let workers = self.workers()?;
        let mut parts =
            vec![SubGroup::inner("worker", int32(segments, self.top, &self.specs.at(&path))?)];
        // Segments that begin beyond the minimum are welcome, and nobody waits for them.
        let needed = least.saturating_add(size - 1) / size;
        let topology = self.topology();
        for at in 0..segments {
            let here = match (at >= needed, at == segments - 1, workers % size) {
                (true, _, _) => 0,
                (false, true, rest) if rest != 0 => rest,
                _ => size,
            };
            let here = int32(here, self.top, &self.specs.at(&path))?;
            let part = SubGroup::leaf(format!("worker-{at}"), here).within("worker");
            parts.push(part.near(topology.clone()));
        }
        Ok(parts)
    }

    fn part_of_pod(&self) -> Result<Option<String>, GroupError> {
        if self.specs.get(&["Worker"])?.is_none() {
            return Ok(None);
        }
        let Some((size, _)) = self.segments()? else { return Ok(Some("worker".to_owned())) };
        let field = format!("metadata.labels[{INDEX}]");
        let error = |class, detail: String| {
            let remedy = "let the training operator make the pod";
            GroupError::new(class, self.cx.pod.shown(), field.clone(), detail, remedy)
        };
        let Some(text) = self.cx.pod.label(INDEX) else {
            return Err(error(Class::PodLabelMissing, "the worker has no number".to_owned()));
        };
        match number(text).filter(|index| *index >= 0) {
            Some(index) => Ok(Some(format!("worker-{}", index / size))),
            None => Err(error(Class::PodIndexInvalid, format!("{text:?} is no worker's number"))),
        }
    }

    fn workers(&self) -> Result<i64, GroupError> {
        Ok(self.specs.int(&["Worker", "replicas"])?.unwrap_or(1))
    }

    /// How large segments are and how many there are; nothing if there are none.
    fn segments(&self) -> Result<Option<(i64, i64)>, GroupError> {
        let on_pod = self.cx.pod.annotation(names::SEGMENT_SIZE).filter(|size| !size.is_empty());
        let text = match on_pod {
            Some(text) => text,
            None => match self.template(names::SEGMENT_SIZE)?.filter(|size| !size.is_empty()) {
                Some(text) => text,
                None => return Ok(None),
            },
        };
        let object = if on_pod.is_some() { self.cx.pod } else { self.top };
        let error = |detail: String| {
            let field = format!("annotation {}", names::SEGMENT_SIZE);
            let remedy = "write a whole number above 0 that makes at most 10000 segments";
            GroupError::new(Class::SegmentInvalid, object.shown(), field, detail, remedy)
        };
        let size = number(text).filter(|size| *size > 0);
        let size = size.ok_or_else(|| error(format!("{text:?} is no size of a segment")))?;
        let workers = self.workers()?.max(0);
        let segments = workers / size + i64::from(workers % size != 0);
        if segments > MOST_SEGMENTS {
            return Err(error(format!("there would be {segments} segments")));
        }
        Ok(if segments == 0 { None } else { Some((size, segments)) })
    }

    /// An annotation of the workers' template.
    fn template(&self, key: &str) -> Result<Option<&str>, GroupError> {
        self.specs.text(&["Worker", "template", "metadata", "annotations", key])
    }

    /// An annotation of the pod, or of the workers' template.
    fn word(&self, key: &str) -> String {
        let on_pod = self.cx.pod.annotation(key).filter(|value| !value.is_empty());
        on_pod.or_else(|| self.template(key).ok().flatten()).unwrap_or_default().to_owned()
    }

    fn topology(&self) -> Option<Topology> {
        let mut topology = self.word(names::TOPOLOGY);
        if topology.is_empty() {
            topology = self.top.annotation(names::TOPOLOGY)?.to_owned();
        }
        let required = self.word(names::SEGMENT_REQUIRED);
        let preferred = self.word(names::SEGMENT_PREFERRED);
        Some(Topology { topology, required, preferred }).filter(Topology::is_asked)
    }
}
