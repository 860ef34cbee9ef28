//! Reads objects of any kind from the API server. Who asks for what is being read already waits for that read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DynamicObject, GetParams, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{Scope, pinned_kind};
use kube::error::DiscoveryError;
use muster_podgrouper::{Key, Object, Refusal, names};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::cache::{Cache, Held, Limits, Names, Want};
use super::failure::plain;
use super::metrics::Metrics;

/// No read takes longer.
const LONGEST: Duration = Duration::from_secs(10);
/// Reads at once.
const AT_ONCE: usize = 32;
/// Of a list, in one answer.
const PAGE: u32 = 500;
/// More names of groups are not kept.
const MOST_NAMES: usize = 100_000;
/// More pods of one label are not counted.
const MOST_PODS: usize = 20_000;

/// Why something could not be read: the API server has trouble.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what} cannot be read: {why}")]
pub struct ReadError {
    what: Arc<str>,
    why: Arc<str>,
}

type SharedRead = Shared<BoxFuture<'static, Result<Held, ReadError>>>;

/// Reads, and keeps for a while. Copies share it.
#[derive(Clone)]
pub struct Reader(Arc<Inner>);

struct Inner {
    client: Client,
    cache: Mutex<Cache>,
    running: Mutex<BTreeMap<Want, SharedRead>>,
    slots: Semaphore,
    metrics: Metrics,
}

// === impl Reader ===

impl Reader {
    /// With nothing read yet.
    pub fn new(client: Client, limits: Limits, metrics: Metrics) -> Self {
        let (cache, running) = (Mutex::new(Cache::new(limits)), Mutex::default());
        let slots = Semaphore::new(AT_ONCE);
        Self(Arc::new(Inner { client, cache, running, slots, metrics }))
    }

    /// What was read.
    pub fn cache(&self) -> &Mutex<Cache> {
        &self.0.cache
    }

    /// Reads it now, also if it is known; with others that do.
    pub fn read(&self, want: Want) -> BoxFuture<'static, Result<Held, ReadError>> {
        let running = self.0.running.lock();
        self.join(want, running)
    }

    /// What is known, or else is read now, with others that do.
    ///
    /// Whether it is known is asked while nobody can begin or end a read: of any number of callers that find it unknown,
    /// also of those who have looked before and come late, one reads.
    pub fn known(&self, want: Want) -> BoxFuture<'static, Result<Held, ReadError>> {
        let running = self.0.running.lock();
        let known = self.0.cache.lock().get(&want, Instant::now()).map(|(held, _)| held.clone());
        match known {
            Some(held) => std::future::ready(Ok(held)).boxed(),
            None => self.join(want, running),
        }
    }

    fn join(
        &self,
        want: Want,
        mut running: MutexGuard<'_, BTreeMap<Want, SharedRead>>,
    ) -> BoxFuture<'static, Result<Held, ReadError>> {
        if let Some(read) = running.get(&want) {
            return read.clone().boxed();
        }
        let (reader, key) = (self.clone(), want.clone());
        // In a task of its own: whoever gives up leaves the others their answer.
        let task = tokio::spawn(async move {
            let read = reader.fetch(&key).await;
            let mut running = reader.0.running.lock();
            if let Ok(held) = &read {
                reader.0.cache.lock().put(key.clone(), held.clone(), Instant::now());
            }
            running.remove(&key);
            read
        });
        let what: Arc<str> = want.to_string().into();
        let read = async move {
            task.await
                .unwrap_or_else(|error| Err(ReadError { what, why: error.to_string().into() }))
        };
        let read = read.boxed().shared();
        running.insert(want, read.clone());
        read.boxed()
    }

    async fn fetch(&self, want: &Want) -> Result<Held, ReadError> {
        let kind = match want {
            Want::Object(key) if !is_plain(key) => return Ok(Held::Refused(Refusal::Absent)),
            // What is in them is nobody's business, and they own no pods.
            Want::Object(key) if key.kind == "Secret" => {
                return Ok(Held::Refused(Refusal::Forbidden));
            }
            Want::Object(key) => {
                let want = Want::Kind(key.api_version.clone(), key.kind.clone());
                match self.known(want).await? {
                    Held::Kind(kind) => Some(kind),
                    other => return Ok(other),
                }
            }
            _ => None,
        };
        // It is never closed.
        let _slot = self.0.slots.acquire().await.ok();
        let read = tokio::time::timeout(LONGEST, self.ask(want, kind)).await;
        let failed = |why: String| ReadError { what: want.to_string().into(), why: why.into() };
        let (read, outcome) = match read {
            Ok(Ok(held)) => (Ok(held), "read"),
            Ok(Err(error)) => match refusal(&error) {
                // As long as nobody knows the kind there are no groups.
                Some(Refusal::Absent) if matches!(want, Want::Groups(_)) => {
                    (Ok(Held::Groups(Arc::default())), "absent")
                }
                Some(refusal) => (Ok(Held::Refused(refusal)), "refused"),
                None => (Err(failed(plain(&error))), "failed"),
            },
            Err(_) => (Err(failed(format!("no answer after {LONGEST:?}"))), "failed"),
        };
        self.0.metrics.read(want.kind(), outcome);
        read
    }

    async fn ask(&self, want: &Want, kind: Option<Arc<(ApiResource, bool)>>) -> kube::Result<Held> {
        let client = &self.0.client;
        match want {
            Want::Object(key) => {
                let Some(kind) = kind else { return Ok(Held::Refused(Refusal::Absent)) };
                let (resource, namespaced) = &*kind;
                let namespace = namespaced.then_some(key.namespace.as_str());
                let path = <DynamicObject as kube::Resource>::url_path(resource, namespace);
                let request = kube::core::Request::new(path).get(&key.name, &GetParams::default());
                let request = request.map_err(kube::Error::BuildRequest)?;
                let mut object: Value = client.request(request).await?;
                trim(&mut object);
                let object = Object::new(object).or_of_kind(&key.api_version, &key.kind);
                Ok(Held::Object(Arc::new(object)))
            }
            Want::Groups(namespace) => {
                let mut names = Names::default();
                let api = Api::namespaced_with(client.clone(), namespace, &groups());
                let listed = |name: String, _: Value| {
                    names.known.insert(name.into());
                    names.known.len() < MOST_NAMES
                };
                names.more = !pages(&api, ListParams::default(), listed).await?;
                Ok(Held::Groups(Arc::new(Mutex::new(names))))
            }
            Want::Pods(namespace, labels) => {
                let selector: Vec<String> =
                    labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                let resource = ApiResource::erase::<Pod>(&());
                let api: Api<DynamicObject> =
                    Api::namespaced_with(client.clone(), namespace, &resource);
                let mut pods = BTreeMap::new();
                let listed = |name: String, metadata: Value| {
                    let mut pod = json!({"apiVersion": "v1", "kind": "Pod"});
                    pod["metadata"] = metadata;
                    trim(&mut pod);
                    pods.insert(name, Arc::new(Object::new(pod)));
                    pods.len() < MOST_PODS
                };
                pages(&api, ListParams::default().labels(&selector.join(",")), listed).await?;
                Ok(Held::Pods(Arc::new(Mutex::new(pods))))
            }
            Want::Kind(api_version, kind) => {
                let (group, version) =
                    api_version.split_once('/').unwrap_or(("", api_version.as_str()));
                let kind = GroupVersionKind::gvk(group, version, kind);
                let (resource, can) = pinned_kind(client, &kind).await?;
                Ok(Held::Kind(Arc::new((resource, can.scope == Scope::Namespaced))))
            }
        }
    }
}

/// PodGroups of a namespace.
pub fn groups() -> ApiResource {
    let (group, version) = names::POD_GROUP_API.split_once('/').unwrap_or_default();
    let kind = GroupVersionKind::gvk(group, version, names::POD_GROUP);
    ApiResource::from_gvk_with_plural(&kind, "podgroups")
}

/// Lists, page by page, until `each` has enough; whether that was all.
async fn pages(
    api: &Api<DynamicObject>,
    params: ListParams,
    mut each: impl FnMut(String, Value) -> bool,
) -> kube::Result<bool> {
    let mut params = params.limit(PAGE);
    loop {
        let page = api.list_metadata(&params).await?;
        for object in page.items {
            let name = object.metadata.name.clone().unwrap_or_default();
            let metadata = serde_json::to_value(object.metadata).unwrap_or_default();
            if !each(name, metadata) {
                return Ok(false);
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(true),
        }
    }
}

/// Takes away what nobody needs.
pub fn trim(object: &mut Value) {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    metadata.and_then(|metadata| metadata.remove("managedFields"));
}

/// What an error says of an object; nothing if it is only that the API server has trouble.
fn refusal(error: &kube::Error) -> Option<Refusal> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Some(Refusal::Absent),
        kube::Error::Api(status) if status.code == 403 => Some(Refusal::Forbidden),
        kube::Error::Discovery(DiscoveryError::MissingKind(_)) => Some(Refusal::Absent),
        _ => None,
    }
}

/// Whether a key can be a part of a path. References are written by anybody.
fn is_plain(key: &Key) -> bool {
    let name = |text: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        !text.is_empty()
            && text.len() <= 253
            && text != "."
            && text != ".."
            && text.bytes().all(known)
    };
    let mut version = key.api_version.split('/');
    let parts = version.by_ref().take(2).all(name);
    parts && version.next().is_none() && name(&key.kind) && name(&key.name)
}

// === impl Want ===

impl Want {
    /// What it is called in metrics.
    fn kind(&self) -> &'static str {
        match self {
            Self::Object(_) => "object",
            Self::Groups(_) => "groups",
            Self::Pods(..) => "pods",
            Self::Kind(..) => "kind",
        }
    }
}

impl std::fmt::Display for Want {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Object(key) => write!(f, "{key}"),
            Self::Groups(namespace) => write!(f, "the PodGroups of {namespace}"),
            Self::Pods(namespace, _) => write!(f, "the pods of {namespace}"),
            Self::Kind(api_version, kind) => write!(f, "the kind {kind} of {api_version}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_that_would_lead_elsewhere_is_not_followed() {
        let plain = |api: &str, kind: &str, name: &str| is_plain(&Key::new(api, kind, "ns", name));
        assert!(plain("batch/v1", "Job", "train-0.a"));
        assert!(plain("v1", "Pod", "p"));
        for name in ["", ".", "..", "a/b", "../secrets/s", "a?b", "a%2fb", "a#b", "a b", "ä"] {
            assert!(!plain("v1", "Pod", name), "{name}");
        }
        for api in ["", "a/b/c", "/v1", "a/", "../v1", "a/../b"] {
            assert!(!plain(api, "Pod", "p"), "{api}");
        }
        assert!(!plain("v1", "a/b", "p"));
    }
}
