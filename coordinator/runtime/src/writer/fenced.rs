//! Fenced of one kind in one place, as a [`Writer`](super::Writer) hands them out.

use std::borrow::Cow;
use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::{Client, Resource};

/// Fenced of one kind, in one namespace or in all. It has no methods: only the writer that made it can read and write them,
/// so that nothing goes past the fence.
#[derive(Clone)]
pub struct Fenced<K> {
    pub(super) api: Api<K>,
    /// For errors.
    pub(super) kind: Cow<'static, str>,
}

// === impl Fenced ===

impl<K: Resource<DynamicType = ()>> Fenced<K> {
    pub(super) fn all(client: Client) -> Self {
        Self { api: Api::all(client), kind: K::kind(&()) }
    }
}

impl<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>> Fenced<K> {
    pub(super) fn namespaced(client: Client, namespace: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), kind: K::kind(&()) }
    }
}

impl Fenced<DynamicObject> {
    pub(super) fn dynamic(client: Client, resource: &ApiResource, namespace: Option<&str>) -> Self {
        let api = match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, resource),
            None => Api::all_with(client, resource),
        };
        Self { api, kind: resource.kind.clone().into() }
    }
}

impl<K> Debug for Fenced<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fenced").field("kind", &self.kind).finish_non_exhaustive()
    }
}
