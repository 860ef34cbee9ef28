//! Ranktable: a job with the annotation `muster.dev/ranktable-template` trains with a rank table.
//!
//! Its nodes are one rank group, which has the job's name. They get what pods of a ModelServing get: the marks, the volume, the
//! mount, the container that waits, and beside that `RANK_TABLE_FILE`, where Ascend's libraries look for the path.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::TrainJob;
use muster_api::names::{LAUNCHER, NODE, TRAINER};
use muster_kube::rank_group::{
    COPIED, Marks, RANKTABLE_CONTAINERS, RANKTABLE_TEMPLATE, annotation,
};
use muster_ranktable::inject;
use muster_ranktable::names::VOLUME;
use serde_json::{Value, json};

use super::{Context, Fault, Plugin, PodNetwork};
use crate::info::Info;
use crate::pod_set::{PodSet, called};
use crate::registry::Registry;
use crate::upsert;

/// The variable with the path of the table.
pub const FILE: &str = "RANK_TABLE_FILE";

/// Ranktable.
pub struct Ranktable;

// === impl Ranktable ===

impl Plugin for Ranktable {
    fn name(&self) -> &'static str {
        "Ranktable"
    }

    fn register(self: Arc<Self>, at: &mut Registry) {
        at.pod_network.push(self);
    }
}

impl PodNetwork for Ranktable {
    fn identify_pod_network(
        &self,
        cx: &Context<'_>,
        info: &mut Info,
        job: &TrainJob,
    ) -> Result<(), Fault> {
        let Some((_, name)) = annotation(job.metadata.annotations.as_ref(), &RANKTABLE_TEMPLATE)
        else {
            return Ok(());
        };
        let fault = |why: &dyn std::fmt::Display| {
            Fault::new(format!("TrainJob {}/{}: {why}", job.namespace(), job.name()))
        };
        let template = cx.cluster.table_template(name).map_err(|problem| fault(&problem))?;
        let size: i64 = members(info).map(|pods| i64::from(pods.count)).sum();
        if size == 0 {
            return Err(fault(&format!(
                "it asks for a rank table ({}), but its runtime has no job of the step {TRAINER}; label one",
                RANKTABLE_TEMPLATE[0]
            )));
        }
        let marks = marks(job, name, size);
        let file = format!("{}/{}", template.mount_path.trim_end_matches('/'), template.filename);
        let launcher_trains = launcher_trains(info);
        for pods in info.pod_sets.iter_mut().filter(|pods| is_member(pods, launcher_trains)) {
            let mut pod = std::mem::take(pods.pod_template_mut());
            put(&marks, &mut pod);
            let mut pod = Value::Object(pod);
            let template = |_: &str| Ok(template.clone());
            let outcome = inject::mutate(&pod, job.namespace(), template, &cx.settings.injection);
            let outcome = outcome.map_err(|refusal| fault(&refusal.problem))?;
            let patch: json_patch::Patch = serde_json::from_value(Value::Array(outcome.patch))
                .map_err(|error| fault(&error))?;
            json_patch::patch(&mut pod, &patch).map_err(|error| fault(&error))?;
            if let Value::Object(pod) = pod {
                *pods.pod_template_mut() = pod;
            }
            for container in pods.containers_mut() {
                let sees = |key: &str, wanted: &str| {
                    let items = container.get(key).and_then(Value::as_array);
                    items.into_iter().flatten().any(|item| called(item, wanted))
                };
                if sees("volumeMounts", VOLUME) && !sees("env", FILE) {
                    upsert::env(container, upsert::variable(FILE, file.as_str()));
                }
            }
        }
        Ok(())
    }
}

/// The nodes that train, which share the table.
fn members(info: &Info) -> impl Iterator<Item = &PodSet> {
    let launcher_trains = launcher_trains(info);
    info.pod_sets.iter().filter(move |pods| is_member(pods, launcher_trains))
}

/// With MPI the launcher has the step's label, and the nodes do not.
fn is_member(pods: &PodSet, launcher_trains: Option<bool>) -> bool {
    match launcher_trains {
        None => pods.is(TRAINER),
        Some(launcher_trains) => pods.name == NODE || (launcher_trains && pods.name == LAUNCHER),
    }
}

/// Whether the launcher trains; none without MPI.
fn launcher_trains(info: &Info) -> Option<bool> {
    let mpi = info.ml().and_then(|ml| ml.mpi.as_ref());
    mpi.map(|mpi| mpi.run_launcher_as_node == Some(true))
}

fn marks(job: &TrainJob, template: &str, size: i64) -> Marks {
    let said = job.metadata.annotations.as_ref();
    let marks = Marks::new(job.name().to_owned(), size, template);
    marks.copying(said, &COPIED).copying(said, &[&[RANKTABLE_CONTAINERS]])
}

/// Puts marks on a pod's template.
fn put(marks: &Marks, pod: &mut serde_json::Map<String, Value>) {
    let metadata = crate::pod_set::object(pod, "metadata");
    let mut take = |key: &str| -> BTreeMap<String, String> {
        let value = metadata.remove(key).unwrap_or_default();
        serde_json::from_value(value).unwrap_or_default()
    };
    let (mut labels, mut annotations) = (take("labels"), take("annotations"));
    marks.put_on(&mut labels, &mut annotations);
    Marks::follow_pods(&mut annotations);
    metadata.insert("labels".to_owned(), json!(labels));
    metadata.insert("annotations".to_owned(), json!(annotations));
}
