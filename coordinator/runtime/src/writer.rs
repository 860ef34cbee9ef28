//! Everything that a leader writes goes through here: it is refused when the lease is over, and never takes longer than
//! the lease lasts.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{
    Api, DeleteParams, DynamicObject, EvictParams, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::election::{Fence, NotLeader};
use crate::names::FIELD_MANAGER;

/// No write takes longer.
const LONGEST: Duration = Duration::from_secs(10);

/// Writes as the leader of an epoch.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    fence: Fence,
}

/// Why something was not written, or perhaps not.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// This coordinator does not lead any more. Nothing was sent.
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    /// The API server has not answered in time. It may have done it.
    #[error("{what}: no answer after {after:.1?}")]
    Late {
        /// The object.
        what: String,
        /// How long was waited.
        after: Duration,
    },
    /// Somebody else has changed the object since it was read.
    #[error("{what} was changed by somebody else in the meantime")]
    Conflict {
        /// The object.
        what: String,
    },
    /// Something of this name is there already.
    #[error("{what} exists already")]
    Exists {
        /// The object.
        what: String,
    },
    /// The object, or its namespace, is gone.
    #[error("{what} is not there")]
    Gone {
        /// The object.
        what: String,
    },
    /// The API server refuses it, or cannot be reached.
    #[error("{what}: {}", said(error))]
    Refused {
        /// The object.
        what: String,
        /// What it says.
        error: Box<kube::Error>,
    },
}

// === impl Writer ===

impl Writer {
    /// Writes as long as the fence stands.
    pub fn new(client: Client, fence: Fence) -> Self {
        Self { client, fence }
    }

    /// The client, to read.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Until when it may write, and as what.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Creates an object.
    pub async fn create<K>(&self, api: &Api<K>, object: &K) -> Result<K, WriteError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let name = object.meta().name.clone().unwrap_or_default();
        let params =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        self.within::<K, _>(&name, api.create(&params, object)).await
    }

    /// Server-side apply: the fields in `object` become ours, others stay as they are. With a resourceVersion in it
    /// nothing is written if somebody else was faster.
    pub async fn apply<K>(&self, api: &Api<K>, name: &str, object: &Value) -> Result<K, WriteError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        self.within::<K, _>(name, api.patch(name, &params, &Patch::Apply(object))).await
    }

    /// Server-side apply of an object of any kind, in the name of another field manager; its fields become that one's, also
    /// those that others own.
    pub async fn apply_raw(
        &self,
        api: &Api<DynamicObject>,
        manager: &str,
        object: &Value,
    ) -> Result<DynamicObject, WriteError> {
        let params = PatchParams::apply(manager).force();
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, name) = (word(&object["kind"]), word(&object["metadata"]["name"]));
        let patch = Patch::Apply(object);
        let write = api.patch(&name, &params, &patch);
        self.bounded(|| format!("{kind} {name}"), write).await
    }

    /// Changes some fields of the status.
    pub async fn merge_status<K>(
        &self,
        api: &Api<K>,
        name: &str,
        change: &Value,
    ) -> Result<K, WriteError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.within::<K, _>(name, api.patch_status(name, &params, &Patch::Merge(change))).await
    }

    /// Changes some fields.
    pub async fn merge<K>(&self, api: &Api<K>, name: &str, change: &Value) -> Result<K, WriteError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.within::<K, _>(name, api.patch(name, &params, &Patch::Merge(change))).await
    }

    /// Changes some fields of the metadata. The answer is no longer than they are, however large the object.
    pub async fn merge_metadata<K>(
        &self,
        api: &Api<K>,
        name: &str,
        change: &Value,
    ) -> Result<(), WriteError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(change);
        self.within::<K, _>(name, api.patch_metadata(name, &params, &patch)).await.map(drop)
    }

    /// Changes exactly these places. With the resourceVersion replaced by the one that was read, nothing is written if
    /// somebody else was faster.
    pub async fn change<K>(
        &self,
        api: &Api<K>,
        name: &str,
        change: json_patch::Patch,
    ) -> Result<K, WriteError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        self.within::<K, _>(name, api.patch(name, &params, &Patch::<()>::Json(change))).await
    }

    /// Writes the whole status of an object, if it is still the one of this uid.
    pub async fn status<K>(
        &self,
        api: &Api<K>,
        name: &str,
        uid: &str,
        status: Value,
    ) -> Result<K, WriteError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        self.whole_status(api, name, uid, None, status).await
    }

    /// The same, if it is still at this version too: otherwise it is a conflict.
    pub async fn status_at<K>(
        &self,
        api: &Api<K>,
        name: &str,
        (uid, version): (&str, &str),
        status: Value,
    ) -> Result<K, WriteError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        self.whole_status(api, name, uid, Some(version), status).await
    }

    async fn whole_status<K>(
        &self,
        api: &Api<K>,
        name: &str,
        uid: &str,
        version: Option<&str>,
        status: Value,
    ) -> Result<K, WriteError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
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
        let change = json_patch::Patch(operations.collect());
        self.within::<K, _>(name, api.patch_status(name, &params, &Patch::<()>::Json(change))).await
    }

    /// Creates an object as it is written, also with fields that this program has never heard of.
    pub async fn create_raw(
        &self,
        api: &Api<DynamicObject>,
        object: &DynamicObject,
    ) -> Result<DynamicObject, WriteError> {
        self.create_as(api, FIELD_MANAGER, object).await
    }

    /// The same for another field manager.
    pub async fn create_as(
        &self,
        api: &Api<DynamicObject>,
        manager: &str,
        object: &DynamicObject,
    ) -> Result<DynamicObject, WriteError> {
        let params =
            PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
        self.bounded(|| called(object), api.create(&params, object)).await
    }

    /// Reads an object, not from a cache.
    pub async fn look(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
    ) -> Result<Option<DynamicObject>, WriteError> {
        self.bounded(|| name.to_owned(), api.get_opt(name)).await
    }

    /// Makes an object this, if it is still at the version that it has here.
    pub async fn replace_raw(
        &self,
        api: &Api<DynamicObject>,
        object: &DynamicObject,
    ) -> Result<DynamicObject, WriteError> {
        let params =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let name = object.metadata.name.clone().unwrap_or_default();
        self.bounded(|| called(object), api.replace(&name, &params, object)).await
    }

    /// Changes exactly these places of an object of any kind.
    pub async fn change_raw(
        &self,
        api: &Api<DynamicObject>,
        kind: &str,
        name: &str,
        change: json_patch::Patch,
    ) -> Result<DynamicObject, WriteError> {
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::<()>::Json(change);
        self.bounded(|| format!("{kind} {name}"), api.patch(name, &params, &patch)).await
    }

    /// Deletes an object of any kind; it is no error if it is gone.
    pub async fn delete_raw(
        &self,
        api: &Api<DynamicObject>,
        kind: &str,
        name: &str,
        params: &DeleteParams,
    ) -> Result<(), WriteError> {
        match self.bounded(|| format!("{kind} {name}"), api.delete(name, params)).await {
            Ok(_) | Err(WriteError::Gone { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes all objects that the selector matches.
    pub async fn delete_all<K>(&self, api: &Api<K>, selector: &str) -> Result<(), WriteError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let (params, which) = (DeleteParams::default(), ListParams::default().labels(selector));
        self.within::<K, _>(selector, api.delete_collection(&params, &which)).await.map(drop)
    }

    /// Deletes an object; it is no error if it is gone.
    pub async fn delete<K>(
        &self,
        api: &Api<K>,
        name: &str,
        params: &DeleteParams,
    ) -> Result<(), WriteError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        match self.within::<K, _>(name, api.delete(name, params)).await {
            Ok(_) | Err(WriteError::Gone { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Changes some fields of the status of an object of any kind.
    pub async fn merge_status_raw(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
        change: &Value,
    ) -> Result<(), WriteError> {
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(change);
        let write = api.patch_status(name, &params, &patch);
        self.bounded(|| name.to_owned(), write).await.map(drop)
    }

    /// Changes some fields of an object of any kind.
    pub async fn merge_raw(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
        change: &Value,
    ) -> Result<(), WriteError> {
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(change);
        let write = api.patch(name, &params, &patch);
        self.bounded(|| name.to_owned(), write).await.map(drop)
    }

    /// Changes some fields of the status of a pod, and of its conditions those that are named.
    pub async fn strategic_status(
        &self,
        api: &Api<Pod>,
        name: &str,
        change: &Value,
    ) -> Result<Pod, WriteError> {
        let params =
            PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Strategic(change);
        self.within::<Pod, _>(name, api.patch_status(name, &params, &patch)).await
    }

    /// Gives a pod its node.
    pub async fn bind(
        &self,
        api: &Api<Pod>,
        name: &str,
        binding: &Value,
    ) -> Result<(), WriteError> {
        let params =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let write = api.create_subresource::<_, Value>("binding", name, &params, binding);
        self.within::<Pod, _>(name, write).await.map(drop)
    }

    /// Asks a pod to go; a disruption budget may say no. It is no error if it is gone.
    pub async fn evict(
        &self,
        api: &Api<Pod>,
        name: &str,
        params: &EvictParams,
    ) -> Result<(), WriteError> {
        match self.within::<Pod, _>(name, api.evict(name, params)).await {
            Ok(_) | Err(WriteError::Gone { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn within<K, T>(
        &self,
        name: &str,
        write: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, WriteError>
    where
        K: Resource<DynamicType = ()>,
    {
        self.bounded(|| format!("{} {name}", K::kind(&())), write).await
    }

    async fn bounded<T>(
        &self,
        what: impl Fn() -> String,
        write: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, WriteError> {
        let after = self.fence.left()?.min(LONGEST);
        match tokio::time::timeout(after, write).await {
            Ok(Ok(written)) => Ok(written),
            Ok(Err(kube::Error::Api(refused)))
                if refused.code == 409 && refused.reason == "AlreadyExists" =>
            {
                Err(WriteError::Exists { what: what() })
            }
            Ok(Err(kube::Error::Api(refused))) if refused.code == 409 => {
                Err(WriteError::Conflict { what: what() })
            }
            Ok(Err(kube::Error::Api(refused))) if refused.code == 404 => {
                Err(WriteError::Gone { what: what() })
            }
            Ok(Err(error)) => Err(WriteError::Refused { what: what(), error: Box::new(error) }),
            Err(_) => Err(WriteError::Late { what: what(), after }),
        }
    }
}

impl Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("fence", &self.fence).finish_non_exhaustive()
    }
}

fn called(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("object", |types| types.kind.as_str());
    format!("{kind} {}", object.metadata.name.as_deref().unwrap_or_default())
}

/// What the API server said, for a person: the message alone, not the whole `Status` that holds it.
fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(refused) if !refused.message.is_empty() => refused.message.clone(),
        other => muster_program::causes(other),
    }
}

// === impl WriteError ===

impl WriteError {
    /// Why, for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotLeader(_) => "not-leader",
            Self::Late { .. } => "late",
            Self::Conflict { .. } => "conflict",
            Self::Exists { .. } => "exists",
            Self::Gone { .. } => "gone",
            Self::Refused { .. } => "refused",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_in_the_words_of_the_api_server() {
        let status: kube::core::Status = serde_json::from_value(serde_json::json!({
            "status": "Failure", "code": 422, "reason": "Invalid", "message": "spec.a: Required value"}))
        .unwrap();
        let error = Box::new(kube::Error::Api(Box::new(status)));
        let refused = WriteError::Refused { what: "JobSet a".to_owned(), error };
        assert_eq!(refused.to_string(), "JobSet a: spec.a: Required value");
    }
}
