//! Queue: pods that Muster's scheduler places get PodGroups with queue, priority, topology and a subgroup for each job.
//!
//! A runtime asks for it by `schedulerName` in its pods. What the PodGroup says is the job's, else the template's:
//!
//! | what | where |
//! |---|---|
//! | queue | label `kai.scheduler/queue` |
//! | priority | label `priorityClassName`, else that of the pods |
//! | preemptibility | label `kai.scheduler/preemptibility` |
//! | topology | annotations `kai.scheduler/topology`, `…-required-placement`, `…-preferred-placement` |
//!
//! Nobody waits for pods that do not exist yet: a job that another one waits for to complete has a PodGroup of its own, and a
//! job that begins when another is ready joins without being waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::TrainJob;
use muster_api::names::KAI_API;
use muster_api::pod_group::{KaiSpec, SubGroup, TopologyConstraint};
use serde_json::{Value, json};

use muster_kube::names::QUEUE;

use super::{
    ComponentBuilder, Context, EnforcePodGroupPolicy, Fault, Plugin, Watch, WatchExtension,
};
use crate::info::Info;
use crate::name;
use crate::pod_set::PodSet;
use crate::registry::Registry;

const DEFAULT_QUEUE: &str = "default-queue";
const PRIORITY: &str = "priorityClassName";
const PREEMPTIBILITY: &str = "kai.scheduler/preemptibility";
const TOPOLOGY: &str = "kai.scheduler/topology";
const REQUIRED: &str = "kai.scheduler/topology-required-placement";
const PREFERRED: &str = "kai.scheduler/topology-preferred-placement";
const GROUP: &str = "pod-group-name";
const SUBGROUP: &str = "kai.scheduler/subgroup-name";
const NO_GROUPER: &str = "kai.scheduler/skip-podgrouper";

/// Queue.
pub struct Queue;

// === impl Queue ===

impl Plugin for Queue {
    fn name(&self) -> &'static str {
        "Queue"
    }

    fn register(self: Arc<Self>, at: &mut Registry) {
        at.pod_group_policy.push(self.clone());
        at.builders.push(self.clone());
        at.watchers.push(self);
    }
}

impl EnforcePodGroupPolicy for Queue {
    fn enforce_pod_group_policy(
        &self,
        cx: &Context<'_>,
        info: &mut Info,
        job: &TrainJob,
    ) -> Result<(), Fault> {
        let early = completed_first(info);
        for pods in info.pod_sets.iter_mut().filter(|pods| is_ours(cx, pods)) {
            let group = group_of(job, pods, &early);
            let annotations = BTreeMap::from([
                (GROUP.to_owned(), group),
                (NO_GROUPER.to_owned(), "true".to_owned()),
            ]);
            pods.mark("annotations", &annotations);
            let labels = BTreeMap::from([(SUBGROUP.to_owned(), pods.name.clone())]);
            pods.mark("labels", &labels);
        }
        Ok(())
    }
}

impl ComponentBuilder for Queue {
    fn build(&self, cx: &Context<'_>, info: &Info, job: &TrainJob) -> Result<Vec<Value>, Fault> {
        let early = completed_first(info);
        let in_order =
            info.rest.get("startupPolicy").and_then(|policy| policy.get("startupPolicyOrder"));
        let in_order = in_order.and_then(Value::as_str) == Some("InOrder");
        let mut groups: BTreeMap<String, Vec<SubGroup>> = BTreeMap::new();
        for pods in info.pod_sets.iter().filter(|pods| is_ours(cx, pods)) {
            let group = groups.entry(group_of(job, pods, &early)).or_default();
            let later = waits(pods, "Ready").next().is_some() || (in_order && !group.is_empty());
            let all = pods.count.saturating_mul(pods.replicas());
            let min_member = Some(if later { 0 } else { all });
            group.push(SubGroup { name: pods.name.clone(), min_member, ..SubGroup::default() });
        }
        let there = |group: &str| {
            !job.is_suspended() && cx.cluster.exists(KAI_API, "PodGroup", job.namespace(), group)
        };
        let groups = groups.into_iter().filter(|(group, _)| !there(group));
        Ok(groups.map(|(group, subgroups)| pod_group(cx, info, job, &group, subgroups)).collect())
    }
}

impl WatchExtension for Queue {
    fn watches(&self) -> Vec<Watch> {
        vec![Watch::Owned(KAI_API, "PodGroup")]
    }
}

fn pod_group(
    cx: &Context<'_>,
    info: &Info,
    job: &TrainJob,
    group: &str,
    sub_groups: Vec<SubGroup>,
) -> Value {
    let label = |key: &str| said(job.metadata.labels.as_ref(), &info.labels, key);
    let annotation = |key: &str| said(job.metadata.annotations.as_ref(), &info.annotations, key);
    let of_pods = |info: &Info| {
        let mut pods = info.pod_sets.iter().filter(|pods| is_ours(cx, pods));
        let name = pods.find_map(|pods| pods.pod_spec()?.get(PRIORITY)?.as_str());
        name.map(str::to_owned)
    };
    let constraint = TopologyConstraint {
        topology: annotation(TOPOLOGY),
        required_topology_level: annotation(REQUIRED),
        preferred_topology_level: annotation(PREFERRED),
    };
    let queue = label(QUEUE).unwrap_or_else(|| DEFAULT_QUEUE.to_owned());
    let spec = KaiSpec {
        min_sub_group: i32::try_from(sub_groups.len()).ok(),
        queue: Some(queue.clone()),
        priority_class_name: label(PRIORITY).or_else(|| of_pods(info)),
        preemptibility: label(PREEMPTIBILITY),
        topology_constraint: constraint.topology.is_some().then_some(constraint),
        sub_groups,
        min_member: None,
    };
    let mut metadata = name::metadata(job, group);
    metadata["labels"] = json!({QUEUE: queue});
    json!({"apiVersion": KAI_API, "kind": "PodGroup", "metadata": metadata, "spec": spec})
}

/// What the job says, else what the template does.
fn said(
    job: Option<&BTreeMap<String, String>>,
    template: &BTreeMap<String, String>,
    key: &str,
) -> Option<String> {
    let own = job.and_then(|own| own.get(key)).or_else(|| template.get(key));
    own.filter(|value| !value.is_empty()).cloned()
}

fn is_ours(cx: &Context<'_>, pods: &PodSet) -> bool {
    let scheduler = pods.pod_spec().and_then(|spec| spec.get("schedulerName")?.as_str());
    scheduler.is_some_and(|name| cx.settings.schedulers.iter().any(|ours| ours == name))
}

/// The jobs that others wait for to complete.
fn completed_first(info: &Info) -> BTreeSet<String> {
    info.pod_sets.iter().flat_map(|pods| waits(pods, "Complete")).map(str::to_owned).collect()
}

/// For whom a job waits until they are in this state.
fn waits<'a>(pods: &'a PodSet, state: &'a str) -> impl Iterator<Item = &'a str> {
    let others = pods.job.get("dependsOn").and_then(Value::as_array);
    let others = others.into_iter().flatten();
    others.filter(move |other| other["status"] == state).filter_map(|other| other["name"].as_str())
}

fn group_of(job: &TrainJob, pods: &PodSet, early: &BTreeSet<String>) -> String {
    match early.contains(&pods.name) {
        true => name::of(job, &pods.name),
        false => job.name().to_owned(),
    }
}
