//! Volcano: a PodGroup with queue, priority and topology, and the annotation that puts pods into it.

use std::sync::Arc;

use muster_api::TrainJob;
use muster_api::names::VOLCANO_API;
use muster_kube::FieldError;
use muster_kube::names::VOLCANO_QUEUE as QUEUE;
use serde_json::{Value, json};

use super::coscheduling::keeps;
use super::{
    ComponentBuilder, Context, CustomValidation, EnforcePodGroupPolicy, Fault, Plugin, Verdict,
    Watch, WatchExtension,
};
use crate::info::Info;
use crate::name;
use crate::registry::Registry;
use crate::resources::written;

const GROUP_NAME: &str = "scheduling.k8s.io/group-name";
/// Priorities that every cluster has.
const SYSTEM: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// Volcano.
pub struct Volcano;

// === impl Volcano ===

impl Plugin for Volcano {
    fn name(&self) -> &'static str {
        "Volcano"
    }

    fn register(self: Arc<Self>, at: &mut Registry) {
        at.pod_group_policy.push(self.clone());
        at.builders.push(self.clone());
        at.validators.push(self.clone());
        at.watchers.push(self);
    }
}

impl EnforcePodGroupPolicy for Volcano {
    fn enforce_pod_group_policy(
        &self,
        _: &Context<'_>,
        info: &mut Info,
        job: &TrainJob,
    ) -> Result<(), Fault> {
        if asked(info) {
            info.pod_annotations.insert(GROUP_NAME.to_owned(), job.name().to_owned());
            info.count_requests();
        }
        Ok(())
    }
}

impl ComponentBuilder for Volcano {
    fn build(&self, cx: &Context<'_>, info: &Info, job: &TrainJob) -> Result<Vec<Value>, Fault> {
        let Some(policy) = info.gang().and_then(|gang| gang.volcano.as_ref()) else {
            return Ok(Vec::new());
        };
        if keeps(cx, job, VOLCANO_API) {
            return Ok(Vec::new());
        }
        let (pods, requests) = info.all_pods();
        let mut spec = json!({"minMember": pods, "minResources": written(&requests)});
        if let Some(queue) = info.annotations.get(QUEUE) {
            spec["queue"] = json!(queue);
        }
        if let Some(priority) = priorities(info).last() {
            spec["priorityClassName"] = json!(priority);
        }
        if let Some(topology) = &policy.network_topology {
            spec["networkTopology"] = json!(topology);
        }
        Ok(vec![json!({
            "apiVersion": VOLCANO_API, "kind": "PodGroup",
            "metadata": name::metadata(job, job.name()), "spec": spec,
        })])
    }
}

impl CustomValidation for Volcano {
    fn validate(
        &self,
        cx: &Context<'_>,
        info: &Info,
        _: Option<&TrainJob>,
        _: &TrainJob,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        if !asked(info) {
            return verdict;
        }
        if info.annotations.get(QUEUE).is_some_and(String::is_empty) {
            let field = format!("spec.annotations[{QUEUE}]");
            let error = FieldError::invalid(field, "", "Volcano queue name must not be empty");
            verdict.errors.push(error.remedy("name a queue, or drop the annotation"));
        }
        for priority in priorities(info) {
            // As in the original, nothing is looked at after such a one.
            if SYSTEM.contains(&priority) {
                break;
            }
            if !cx.cluster.exists("scheduling.k8s.io/v1", "PriorityClass", "", priority) {
                let why = format!(
                    "PriorityClass {priority:?} doesn't exist: priorityclasses.scheduling.k8s.io {priority:?} not found"
                );
                let field = "spec.templateSpec.priorityClassName";
                let error = FieldError::invalid(field, priority, why);
                verdict.errors.push(error.remedy("create the PriorityClass, or name another"));
            }
        }
        verdict
    }
}

impl WatchExtension for Volcano {
    fn watches(&self) -> Vec<Watch> {
        vec![Watch::Owned(VOLCANO_API, "PodGroup"), Watch::LimitRange, Watch::RuntimeClass]
    }
}

fn asked(info: &Info) -> bool {
    info.gang().is_some_and(|gang| gang.volcano.is_some())
}

fn priorities(info: &Info) -> impl Iterator<Item = &str> {
    info.pod_sets.iter().filter_map(|pods| {
        let name = pods.pod_spec()?.get("priorityClassName")?.as_str()?;
        (!name.is_empty()).then_some(name)
    })
}
