//! JobSets and their pods, as a watcher of them sees them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use super::{Seen, World};

/// How a JobSet ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All its jobs succeeded.
    Completed,
    /// It failed and is not started again.
    Failed,
}

impl World {
    /// The JobSets of the namespace.
    pub fn jobsets(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("jobset.x-k8s.io", "v1alpha2", "JobSet");
        let resource = ApiResource::from_gvk_with_plural(&kind, "jobsets");
        Api::namespaced_with(self.client(), self.namespace(), &resource)
    }

    /// One JobSet as it is now.
    pub async fn jobset(&self, name: &str) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(self.jobsets().get(name).await?)?)
    }

    /// Whether the JobSet has ended, or else how its pods are.
    pub async fn look_at_jobset(&self, name: &str) -> anyhow::Result<Seen<Ended>> {
        let set = self.jobset(name).await?;
        Ok(match set.pointer("/status/terminalState").and_then(Value::as_str) {
            Some("Completed") => Seen::Yes(Ended::Completed),
            Some("Failed") => Seen::Yes(Ended::Failed),
            _ => Seen::NotYet(summary(&self.pods(&selector(name)).await?)),
        })
    }

    /// Waits until the JobSet has ended.
    pub async fn jobset_ends(&self, name: &str) -> anyhow::Result<Ended> {
        let what = format!("the end of JobSet {name}");
        self.until(&what, async || self.look_at_jobset(name).await).await
    }
}

/// The label selector of a JobSet's pods.
pub fn selector(jobset: &str) -> String {
    format!("jobset.sigs.k8s.io/jobset-name={jobset}")
}

/// The phase of a pod; empty before it has one.
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// How many pods are in which phase: `2 Pending, 1 Running`.
pub fn summary(pods: &[Pod]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in pods {
        *counts.entry(phase(pod)).or_default() += 1;
    }
    if counts.is_empty() {
        return "no pods yet".to_owned();
    }
    let parts: Vec<String> = counts.iter().map(|(phase, n)| format!("{n} {phase}")).collect();
    format!("pods: {}", parts.join(", "))
}
