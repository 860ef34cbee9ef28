//! Pods go: evicted, so that disruption budgets count, or deleted.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, EvictParams, Preconditions};
use muster_placement::{Evict, Outcome};

use super::{Eviction, bind::outcome};
use crate::write::Writer;

/// Makes a pod go, if it is still this one.
pub async fn evict(writer: &Writer, evict: &Evict, how: Eviction) -> Outcome {
    let (namespace, name) = (&*evict.pod.0, &*evict.pod.1);
    let api: Api<Pod> = Api::namespaced(writer.client().clone(), namespace);
    let preconditions = Preconditions { uid: Some(evict.uid.clone()), ..Preconditions::default() };
    let delete = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    let answer = match how {
        Eviction::Delete => writer.delete(&api, name, &delete).await,
        Eviction::Evict => {
            let params = EvictParams { delete_options: Some(delete), ..EvictParams::default() };
            writer.evict(&api, name, &params).await
        }
    };
    outcome(answer)
}
