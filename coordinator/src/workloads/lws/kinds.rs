//! The kind as the API server hands it out.

use k8s_openapi::api::core::v1::ObjectReference;
use muster_modelserving::lws;

muster_api::raw_kind!(
    /// A LeaderWorkerSet. Its spec stays JSON: one that cannot be read must not hide the others.
    Set, NamespaceResourceScope, "LeaderWorkerSet", "leaderworkerset.x-k8s.io", "v1", "leaderworkersets"
);

// === impl Set ===

impl Set {
    /// The version that is followed; clusters may have others beside it.
    pub const VERSION: &str = "v1";

    /// Whom events are about.
    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(lws::API_VERSION.to_owned()),
            kind: Some(lws::KIND.to_owned()),
            name: self.metadata.name.clone(),
            namespace: self.metadata.namespace.clone(),
            uid: self.metadata.uid.clone(),
            ..ObjectReference::default()
        }
    }
}
