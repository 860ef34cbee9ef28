//! CoScheduling: a PodGroup for the scheduler plugins, and the label that puts pods into it.

use std::sync::Arc;

use muster_api::TrainJob;
use muster_api::names::{COSCHEDULING_API, COSCHEDULING_GROUP};
use serde_json::{Value, json};

use super::{
    ComponentBuilder, Context, EnforcePodGroupPolicy, Fault, Plugin, Watch, WatchExtension,
};
use crate::info::Info;
use crate::name;
use crate::registry::Registry;
use crate::resources::written;

/// Makes a PodGroup for the coscheduling plugin.
pub struct Coscheduling;

// === impl Coscheduling ===

impl Plugin for Coscheduling {
    fn name(&self) -> &'static str {
        "CoScheduling"
    }

    fn register(self: Arc<Self>, at: &mut Registry) {
        at.pod_group_policy.push(self.clone());
        at.builders.push(self.clone());
        at.watchers.push(self);
    }
}

impl EnforcePodGroupPolicy for Coscheduling {
    fn enforce_pod_group_policy(
        &self,
        _: &Context<'_>,
        info: &mut Info,
        job: &TrainJob,
    ) -> Result<(), Fault> {
        if info.gang().is_some_and(|gang| gang.coscheduling.is_some()) {
            let label = format!("{COSCHEDULING_GROUP}/pod-group");
            info.pod_labels.insert(label, job.name().to_owned());
            info.count_requests();
        }
        Ok(())
    }
}

impl ComponentBuilder for Coscheduling {
    fn build(&self, cx: &Context<'_>, info: &Info, job: &TrainJob) -> Result<Vec<Value>, Fault> {
        let Some(policy) = info.gang().and_then(|gang| gang.coscheduling.as_ref()) else {
            return Ok(Vec::new());
        };
        if keeps(cx, job, COSCHEDULING_API) {
            return Ok(Vec::new());
        }
        let (pods, requests) = info.all_pods();
        let mut spec = json!({"minMember": pods, "minResources": written(&requests)});
        if let Some(timeout) = policy.schedule_timeout_seconds {
            spec["scheduleTimeoutSeconds"] = json!(timeout);
        }
        Ok(vec![json!({
            "apiVersion": COSCHEDULING_API, "kind": "PodGroup",
            "metadata": name::metadata(job, job.name()), "spec": spec,
        })])
    }
}

impl WatchExtension for Coscheduling {
    fn watches(&self) -> Vec<Watch> {
        vec![Watch::Owned(COSCHEDULING_API, "PodGroup"), Watch::LimitRange, Watch::RuntimeClass]
    }
}

/// Whether the job's PodGroup of this API stays as it is: it is there, and the job runs.
pub(super) fn keeps(cx: &Context<'_>, job: &TrainJob, api: &str) -> bool {
    !job.is_suspended() && cx.cluster.exists(api, "PodGroup", job.namespace(), job.name())
}
