//! Everything that a leader writes goes through here: it is refused when the lease is over, and never takes longer than
//! the lease lasts. The writer hands out its client to nobody: who writes names what, as [`Fenced`] objects, who reads gets a client that only
//! reads.

mod error;
mod fenced;
mod read_only;

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, EvictParams, ListParams, ObjectList, Patch,
    PatchParams, PostParams,
};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::election::Fence;
use crate::names::FIELD_MANAGER;

pub use error::WriteError;
pub use fenced::Fenced;

/// No write takes longer.
const LONGEST: Duration = Duration::from_secs(10);

/// Writes as the leader of an epoch.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    fence: Fence,
    manager: &'static str,
}

// === impl Writer ===

impl Writer {
    /// Writes as long as the fence stands.
    pub fn new(client: Client, fence: Fence) -> Self {
        Self { client, fence, manager: FIELD_MANAGER }
    }

    /// The same in the name of another field manager.
    pub fn with_manager(&self, manager: &'static str) -> Self {
        Self { manager, ..self.clone() }
    }

    /// A client for watches, lists and discovery. Whatever else is sent with it fails.
    pub fn reader(&self) -> Client {
        read_only::read_only(self.client.clone())
    }

    /// Until when it may write, and as what.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Fenced of a kind, of all namespaces or of none.
    pub fn all<K: Resource<DynamicType = ()>>(&self) -> Fenced<K> {
        Fenced::all(self.client.clone())
    }

    /// Fenced of a kind in a namespace.
    pub fn namespaced<K>(&self, namespace: &str) -> Fenced<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Fenced::namespaced(self.client.clone(), namespace)
    }

    /// Fenced of a kind that is known only when the program runs, with all that is in them; in a namespace, or in none.
    pub fn dynamic(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
    ) -> Fenced<DynamicObject> {
        Fenced::dynamic(self.client.clone(), resource, namespace)
    }

    /// Reads an object, not from a cache.
    pub async fn read<K>(&self, from: &Fenced<K>, name: &str) -> Result<Option<K>, WriteError>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        self.bounded(from, name, from.api.get_opt(name)).await
    }

    /// Lists objects, not from a cache.
    pub async fn list<K>(
        &self,
        from: &Fenced<K>,
        params: &ListParams,
    ) -> Result<ObjectList<K>, WriteError>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        self.bounded(from, "list", from.api.list(params)).await
    }

    /// Creates an object as it is written.
    pub async fn create<K>(&self, at: &Fenced<K>, object: &K) -> Result<K, WriteError>
    where
        K: Resource + Clone + Debug + Serialize + DeserializeOwned,
    {
        let name = object.meta().name.as_deref().unwrap_or_default();
        self.bounded(at, name, at.api.create(&self.post(), object)).await
    }

    /// Makes an object this, if it is still at the version that it has here.
    pub async fn replace<K>(&self, at: &Fenced<K>, object: &K) -> Result<K, WriteError>
    where
        K: Resource + Clone + Debug + Serialize + DeserializeOwned,
    {
        let name = object.meta().name.as_deref().unwrap_or_default();
        self.bounded(at, name, at.api.replace(name, &self.post(), object)).await
    }

    /// Server-side apply: the fields in `object` become ours, also those that others own; others stay as they are. With a
    /// resourceVersion in it nothing is written if somebody else was faster.
    pub async fn apply<K>(
        &self,
        at: &Fenced<K>,
        name: &str,
        object: &Value,
    ) -> Result<K, WriteError>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        let params = PatchParams::apply(self.manager).force();
        self.bounded(at, name, at.api.patch(name, &params, &Patch::Apply(object))).await
    }

    /// Changes some fields.
    pub async fn merge<K>(
        &self,
        at: &Fenced<K>,
        name: &str,
        change: &Value,
    ) -> Result<K, WriteError>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        self.bounded(at, name, at.api.patch(name, &self.patch(), &Patch::Merge(change))).await
    }

    /// Changes some fields of the metadata. The answer is no longer than they are, however large the object.
    pub async fn merge_metadata<K>(
        &self,
        at: &Fenced<K>,
        name: &str,
        change: &Value,
    ) -> Result<(), WriteError>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        let params = self.patch();
        let patch = Patch::Merge(change);
        self.bounded(at, name, at.api.patch_metadata(name, &params, &patch)).await.map(drop)
    }

    /// Changes some fields of the status.
    pub async fn merge_status<K>(
        &self,
        at: &Fenced<K>,
        name: &str,
        change: &Value,
    ) -> Result<K, WriteError>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        let params = self.patch();
        self.bounded(at, name, at.api.patch_status(name, &params, &Patch::Merge(change))).await
    }

    /// Changes some fields of the status of a pod, and of its conditions those that are named.
    pub async fn strategic_status(
        &self,
        at: &Fenced<Pod>,
        name: &str,
        change: &Value,
    ) -> Result<Pod, WriteError> {
        let params = self.patch();
        self.bounded(at, name, at.api.patch_status(name, &params, &Patch::Strategic(change))).await
    }

    /// Changes exactly these places. With the resourceVersion replaced by the one that was read, nothing is written if
    /// somebody else was faster.
    pub async fn change<K>(
        &self,
        at: &Fenced<K>,
        name: &str,
        change: json_patch::Patch,
    ) -> Result<K, WriteError>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        let (params, patch) = (self.patch(), Patch::<()>::Json(change));
        self.bounded(at, name, at.api.patch(name, &params, &patch)).await
    }

    /// Writes the whole status of an object, if it is still the one of this uid and, where a version is named, at that version:
    /// otherwise it is a conflict.
    pub async fn status<K>(
        &self,
        at: &Fenced<K>,
        name: &str,
        (uid, version): (&str, Option<&str>),
        status: Value,
    ) -> Result<K, WriteError>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        let path =
            |tokens: &[&str]| json_patch::jsonptr::PointerBuf::from_tokens(tokens.iter().copied());
        let test =
            json_patch::TestOperation { path: path(&["metadata", "uid"]), value: uid.into() };
        let version = version.map(|version| json_patch::ReplaceOperation {
            path: path(&["metadata", "resourceVersion"]),
            value: version.into(),
        });
        let add = json_patch::AddOperation { path: path(&["status"]), value: status };
        let operations = std::iter::once(json_patch::PatchOperation::Test(test))
            .chain(version.map(json_patch::PatchOperation::Replace))
            .chain([json_patch::PatchOperation::Add(add)]);
        let (params, change) = (self.patch(), json_patch::Patch(operations.collect()));
        let patch = Patch::<()>::Json(change);
        self.bounded(at, name, at.api.patch_status(name, &params, &patch)).await
    }

    /// Deletes an object; it is no error if it is gone.
    pub async fn delete<K>(
        &self,
        at: &Fenced<K>,
        name: &str,
        params: &DeleteParams,
    ) -> Result<(), WriteError>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        gone_is_fine(self.bounded(at, name, at.api.delete(name, params)).await)
    }

    /// Deletes all objects that the selector matches.
    pub async fn delete_all<K>(&self, at: &Fenced<K>, selector: &str) -> Result<(), WriteError>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        let (params, which) = (DeleteParams::default(), ListParams::default().labels(selector));
        self.bounded(at, selector, at.api.delete_collection(&params, &which)).await.map(drop)
    }

    /// Gives a pod its node.
    pub async fn bind(
        &self,
        at: &Fenced<Pod>,
        name: &str,
        binding: &Value,
    ) -> Result<(), WriteError> {
        let params = self.post();
        let write = at.api.create_subresource::<_, Value>("binding", name, &params, binding);
        self.bounded(at, name, write).await.map(drop)
    }

    /// Asks a pod to go; a disruption budget may say no. It is no error if it is gone.
    pub async fn evict(
        &self,
        at: &Fenced<Pod>,
        name: &str,
        params: &EvictParams,
    ) -> Result<(), WriteError> {
        gone_is_fine(self.bounded(at, name, at.api.evict(name, params)).await)
    }

    fn post(&self) -> PostParams {
        PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() }
    }

    fn patch(&self) -> PatchParams {
        PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() }
    }

    async fn bounded<K, T>(
        &self,
        at: &Fenced<K>,
        name: &str,
        write: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, WriteError> {
        let after = self.fence.left()?.min(LONGEST);
        let what = || format!("{} {name}", at.kind);
        match tokio::time::timeout(after, write).await {
            Ok(Ok(written)) => Ok(written),
            Ok(Err(error)) => Err(WriteError::of(what(), error)),
            Err(_) => Err(WriteError::Late { what: what(), after }),
        }
    }
}

impl Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("fence", &self.fence).finish_non_exhaustive()
    }
}

fn gone_is_fine<T>(deleted: Result<T, WriteError>) -> Result<(), WriteError> {
    match deleted {
        Ok(_) | Err(WriteError::Gone { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
