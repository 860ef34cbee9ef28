//! Preparing a pod: fetching what its volumes and environment need, and writing the volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::{Client, Error};
use muster_objects::meta;
use serde_json::{Value, json};

use super::lifecycle::Blocked;
use super::volumes::{Fetched, Object, TokenRequest, Volume, VolumeKind, pod_directory, writer};
use super::watch::value;
use super::{environment, volumes};

/// Tokens that a pod has, with the time from which a new one is asked for.
pub(super) type Tokens = BTreeMap<TokenRequest, (String, Timestamp)>;

/// What a pod needs to be prepared.
#[derive(Clone, Debug)]
pub(super) struct Preparation {
    pub pod: Arc<Value>,
    pub root: PathBuf,
    /// Whether volumes are written.
    pub files: bool,
    pub volumes: Arc<Vec<Volume>>,
    /// Containers whose environment is needed.
    pub outside: Vec<String>,
    pub tokens: Tokens,
}

/// A prepared pod.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub tokens: Tokens,
    /// Environment by container.
    pub env: BTreeMap<String, BTreeMap<String, String>>,
}

// === impl Preparation ===

impl Preparation {
    /// Fetches and writes; also brings volumes that are there up to date.
    pub async fn run(mut self, client: &Client, now: Timestamp) -> Result<Prepared, Blocked> {
        let mut objects = BTreeSet::new();
        let mut requests = BTreeSet::new();
        if self.files {
            if !volumes::is_safe(&self.pod, &self.volumes) {
                return Err(blocked("ContainerCreating", "a name is no name of a directory"));
            }
            for volume in self.volumes.iter() {
                let (more, tokens) = volume.needs();
                objects.extend(more);
                requests.extend(tokens);
            }
        }
        let containers: Vec<&Value> = self
            .outside
            .iter()
            .filter_map(|name| super::containers::container_spec(&self.pod, name))
            .collect();
        for container in &containers {
            let paths = super::lifecycle::list(container, "volumeMounts").iter();
            let mut paths = paths.map(|mount| super::lifecycle::text(mount, "subPath"));
            if let Some(path) = paths.find(|path| volumes::sub_path(&self.root, path).is_none()) {
                let message = format!("subPath \"{path}\" leads out of its volume");
                return Err(blocked("CreateContainerConfigError", &message));
            }
            objects.extend(environment::needs(container));
        }
        let fetched = self.fetch(client, objects).await.map_err(|e| failed(&e))?;
        let mut env = BTreeMap::new();
        for container in containers {
            let resolved = environment::resolve(&self.pod, container, &fetched)
                .map_err(|message| blocked("CreateContainerConfigError", &message))?;
            env.insert(super::lifecycle::text(container, "name").to_owned(), resolved);
        }
        let mut fetched = fetched;
        for request in requests {
            let token = self.token(client, &request, now).await.map_err(|e| failed(&e))?;
            fetched.tokens.insert(request, token);
        }
        let Self { pod, root, files, volumes, tokens, .. } = self;
        if files {
            let written =
                tokio::task::spawn_blocking(move || write(&pod, &root, &volumes, &fetched, now));
            match written.await {
                Ok(done) => done?,
                Err(error) => return Err(blocked("ContainerCreating", &error.to_string())),
            }
        }
        Ok(Prepared { tokens, env })
    }

    async fn fetch(&self, client: &Client, objects: BTreeSet<Object>) -> Result<Fetched, Error> {
        let namespace = meta::namespace(&self.pod);
        let mut fetched = Fetched::default();
        for object in objects {
            let (resource, name) = match &object {
                Object::ConfigMap(name) => (ApiResource::erase::<ConfigMap>(&()), name.as_str()),
                Object::Secret(name) => (ApiResource::erase::<Secret>(&()), name.as_str()),
            };
            let api: Api<DynamicObject> =
                Api::namespaced_with(client.clone(), namespace, &resource);
            if let Some(found) = api.get_opt(name).await? {
                fetched.objects.insert(object, value(&found));
            }
        }
        Ok(fetched)
    }

    /// The token that the pod has, or a new one when four fifths of its life are over.
    async fn token(
        &mut self,
        client: &Client,
        request: &TokenRequest,
        now: Timestamp,
    ) -> Result<String, Error> {
        if let Some((token, _)) = self.tokens.get(request).filter(|(_, until)| now < *until) {
            return Ok(token.clone());
        }
        let resource = ApiResource::erase::<ServiceAccount>(&());
        let namespace = meta::namespace(&self.pod);
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let mut spec = json!({
            "expirationSeconds": request.seconds,
            "boundObjectRef": { "apiVersion": "v1", "kind": "Pod",
                "name": meta::name(&self.pod), "uid": meta::uid(&self.pod) },
        });
        if !request.audience.is_empty() {
            spec["audiences"] = json!([request.audience]);
        }
        let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec });
        let account = self.pod.pointer("/spec/serviceAccountName").and_then(Value::as_str);
        let answer: Value = api
            .create_subresource(
                "token",
                account.unwrap_or("default"),
                &PostParams::default(),
                &body,
            )
            .await?;
        let token = answer.pointer("/status/token").and_then(Value::as_str).unwrap_or_default();
        let life = SignedDuration::from_secs(request.seconds.saturating_mul(4) / 5);
        let until = now.saturating_add(life).unwrap_or(Timestamp::MAX);
        self.tokens.insert(request.clone(), (token.to_owned(), until));
        Ok(token.to_owned())
    }
}

fn write(
    pod: &Value,
    root: &std::path::Path,
    volumes: &[Volume],
    fetched: &Fetched,
    now: Timestamp,
) -> Result<(), Blocked> {
    let uid = meta::uid(pod);
    let io = |error: std::io::Error| blocked("ContainerCreating", &error.to_string());
    std::fs::create_dir_all(pod_directory(root, uid)).map_err(io)?;
    for volume in volumes {
        let at = volume.directory(root, uid);
        match &volume.kind {
            VolumeKind::EmptyDir => writer::empty(&at).map_err(io)?,
            VolumeKind::HostPath(_) => {}
            VolumeKind::Files { .. } => {
                let files = volume.files(pod, fetched);
                let files = files.map_err(|e| blocked("ContainerCreating", &e.to_string()))?;
                writer::swap(&at, &files, now).map_err(io)?;
            }
        }
    }
    Ok(())
}

fn blocked(reason: &str, message: &str) -> Blocked {
    Blocked { reason: reason.to_owned(), message: message.to_owned() }
}

fn failed(error: &Error) -> Blocked {
    blocked("ContainerCreating", &error.to_string())
}
