//! The finalizer that keeps a runtime which jobs use.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use muster_api::TrainJob;
use muster_api::names::RESOURCE_IN_USE;

use crate::runtime::RuntimeKind;

/// The finalizers that a runtime should have, if they are not those that it has. What is being deleted gets none: the API
/// server would refuse it.
pub fn finalizers(runtime: &ObjectMeta, used: bool) -> Option<Vec<String>> {
    let mut now = runtime.finalizers.clone().unwrap_or_default();
    let has = now.iter().any(|finalizer| finalizer == RESOURCE_IN_USE);
    match (used, has) {
        (true, false) if runtime.deletion_timestamp.is_none() => {
            now.push(RESOURCE_IN_USE.to_owned());
            Some(now)
        }
        (false, true) => {
            now.retain(|finalizer| finalizer != RESOURCE_IN_USE);
            Some(now)
        }
        _ => None,
    }
}

/// The runtime that a job uses: kind, namespace (none for those of all namespaces) and name.
pub fn used_by(job: &TrainJob) -> Option<(RuntimeKind, Option<&str>, &str)> {
    let reference = &job.spec.runtime_ref;
    let kind = RuntimeKind::of(reference)?;
    let namespace = (kind == RuntimeKind::Namespaced).then(|| job.namespace());
    Some((kind, namespace, &reference.name))
}
