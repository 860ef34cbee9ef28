//! Workloads, one folder each: the controller, which only the leader runs, the webhooks and servers, which all coordinators run.

pub mod dijob;
pub mod lws;
pub mod modelserving;
mod queues;
mod same;
pub mod trainjob;
mod typos;

use kube::core::ObjectMeta;

/// Namespace and name of an object.
pub type Key = muster_kube::ObjectKey;

/// Namespace and name of an object that was seen.
pub fn key_of(metadata: &ObjectMeta) -> Key {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    Key::new(part(&metadata.namespace), part(&metadata.name))
}
