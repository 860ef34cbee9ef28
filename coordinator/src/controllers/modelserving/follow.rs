//! Does what the machine says: its steps, in order. Neighbours that only create pods are done side by side.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, DynamicObject, Preconditions};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use muster_modelserving::machine::Machine;
use muster_modelserving::shape::Shape;
use muster_modelserving::step::{Failure, Kind, Object, Step, Write};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::known::{Known, Thing};
use super::metrics;
use super::written::{KthenaServing, SeedServing, Written};
use super::{Key, Outlets};
use crate::write::WriteError;

/// Pods of one ModelServing that are created side by side.
const SIDE_BY_SIDE: usize = 16;

/// Where steps lead.
pub struct Course<'a> {
    /// Whose they are.
    pub key: &'a Key,
    /// The object, for events; its newest version that is known.
    pub written: &'a mut Written,
    /// What is told how it went.
    pub machine: &'a mut Machine,
    /// What is there.
    pub known: &'a mut Known,
    /// The way out.
    pub outlets: &'a Outlets,
    /// Told to end: what is left is left to whoever comes next.
    pub stop: &'a CancellationToken,
}

/// What came of a write.
enum Done {
    Made(Thing, Value),
    /// Something of this name is there already.
    Exists(Thing, String),
    Status(Box<Written>),
    Nothing,
}

// === impl Course ===

impl Course<'_> {
    /// Follows steps to their end or to a failure; the first one, if any. Whether something that nobody here knows of
    /// has a name that is needed.
    pub async fn follow(&mut self, steps: &[Step]) -> Result<bool, WriteError> {
        let (mut at, mut first, mut taken) = (0, None, false);
        while at < steps.len() && !self.stop.is_cancelled() {
            let side = steps[at..].iter().take_while(|step| makes_pod(step)).count();
            let batch = &steps[at..at + side.max(1)];
            let mut results = Vec::with_capacity(batch.len());
            for some in batch.chunks(SIDE_BY_SIDE) {
                let mut writes = Vec::with_capacity(some.len());
                for step in some {
                    writes.push(self.write(step.write.as_ref()));
                }
                results.extend(futures::future::join_all(writes).await);
            }
            let mut next = at + batch.len();
            for (step, result) in batch.iter().zip(results) {
                match result {
                    Ok(done) => {
                        self.machine.done(step);
                        if let Done::Exists(thing, name) = &done {
                            taken |= !self.known.has(*thing, name);
                        }
                        self.take(done);
                        self.tell(step);
                    }
                    Err(error) => {
                        self.machine.failed(step);
                        next = match step.failure {
                            Failure::Stop => steps.len(),
                            Failure::GoOnAt(place) => next.max(place),
                        };
                        first.get_or_insert(error);
                    }
                }
            }
            at = next;
        }
        first.map_or(Ok(taken), Err)
    }

    fn take(&mut self, done: Done) {
        match done {
            Done::Made(thing, object) => self.known.made(thing, object, self.key),
            Done::Status(written) => *self.written = *written,
            Done::Exists(..) | Done::Nothing => {}
        }
    }

    /// Nothing waits for events.
    fn tell(&self, step: &Step) {
        for note in &step.notes {
            let about = self.written.reference();
            self.outlets.voice.normal(about, note.reason, note.message.clone());
        }
    }

    /// Whether a thing that we have made is still there.
    pub async fn is_there(&self, thing: Thing, name: &str, uid: &str) -> Result<bool, WriteError> {
        let api = self.api(kind(thing));
        let found = self.outlets.writer.look(&api, name).await?;
        Ok(found.is_some_and(|found| found.metadata.uid.as_deref() == Some(uid)))
    }

    async fn write(&self, write: Option<&Write>) -> Result<Done, WriteError> {
        let Some(write) = write else { return Ok(Done::Nothing) };
        // It is never closed.
        let _room = self.outlets.room.acquire().await;
        let done = match write {
            Write::Create(object) => self.create(object).await,
            Write::Update(object) => self.update(object).await,
            Write::Delete { kind, name, uid } => {
                let params = DeleteParams {
                    preconditions: uid
                        .clone()
                        .map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
                    ..DeleteParams::default()
                };
                let api = self.api(*kind);
                match self.outlets.writer.delete_raw(&api, kind.name(), name, &params).await {
                    // Another one has its name by now: the one that was meant is gone.
                    Err(WriteError::Conflict { .. }) if uid.is_some() => Ok(Done::Nothing),
                    result => result.map(|()| Done::Nothing),
                }
            }
            Write::DeletePods(labels) => {
                let terms: Vec<String> =
                    labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                let api: Api<Pod> =
                    Api::namespaced(self.outlets.writer.client().clone(), &self.key.namespace);
                let deleted = self.outlets.writer.delete_all(&api, &terms.join(",")).await;
                deleted.map(|()| Done::Nothing)
            }
            Write::Status(status) => {
                let status = serde_json::to_value(status).unwrap_or_default();
                self.status(status).await.map(|written| Done::Status(Box::new(written)))
            }
        };
        let metrics = &self.outlets.metrics;
        match &done {
            Ok(_) => drop(metrics.writes.get_or_create(&counted(write)).inc()),
            Err(error) => {
                let reason = metrics::Reason { reason: error.reason() };
                metrics.errors.get_or_create(&reason).inc();
            }
        }
        done
    }

    async fn create(&self, object: &Object) -> Result<Done, WriteError> {
        let api = self.api(object.kind);
        match self.outlets.writer.create_raw(&api, &dynamic(object)).await {
            Ok(made) => {
                let made = serde_json::to_value(made).unwrap_or_default();
                Ok(Done::Made(thing(object.kind), made))
            }
            Err(WriteError::Exists { .. }) => {
                Ok(Done::Exists(thing(object.kind), object.name.clone()))
            }
            Err(error) => Err(error),
        }
    }

    async fn update(&self, object: &Object) -> Result<Done, WriteError> {
        let api = self.api(object.kind);
        self.outlets.writer.replace_raw(&api, &dynamic(object)).await.map(|_| Done::Nothing)
    }

    /// Writes the status; the object as it is then.
    pub async fn status(&self, status: Value) -> Result<Written, WriteError> {
        let (writer, key) = (&self.outlets.writer, self.key);
        let uid = self.written.metadata().uid.clone().unwrap_or_default();
        let client = writer.client().clone();
        Ok(match key.shape {
            Shape::Kthena => {
                let api: Api<KthenaServing> = Api::namespaced(client, &key.namespace);
                Written::Kthena(writer.status(&api, &key.name, &uid, status).await?.into())
            }
            Shape::Seed => {
                let api: Api<SeedServing> = Api::namespaced(client, &key.namespace);
                Written::Seed(writer.status(&api, &key.name, &uid, status).await?.into())
            }
        })
    }

    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        let (group, version) = match kind.api_version().split_once('/') {
            Some(parts) => parts,
            None => ("", kind.api_version()),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind.name()));
        let client = self.outlets.writer.client().clone();
        Api::namespaced_with(client, &self.key.namespace, &resource)
    }
}

fn makes_pod(step: &Step) -> bool {
    matches!(&step.write, Some(Write::Create(object)) if object.kind == Kind::Pod)
}

fn thing(kind: Kind) -> Thing {
    match kind {
        Kind::Pod => Thing::Pod,
        Kind::Service => Thing::Service,
        Kind::PodGroup => Thing::PodGroup,
        Kind::ControllerRevision => Thing::Revision,
    }
}

fn kind(thing: Thing) -> Kind {
    match thing {
        Thing::Pod => Kind::Pod,
        Thing::Service => Kind::Service,
        Thing::PodGroup => Kind::PodGroup,
        Thing::Revision => Kind::ControllerRevision,
    }
}

fn dynamic(object: &Object) -> DynamicObject {
    let mut body = object.body.clone();
    let metadata = body.get_mut("metadata").map(Value::take).unwrap_or_default();
    if let Some(body) = body.as_object_mut() {
        for key in ["apiVersion", "kind", "metadata"] {
            body.remove(key);
        }
    }
    DynamicObject {
        types: Some(TypeMeta {
            api_version: object.kind.api_version().to_owned(),
            kind: object.kind.name().to_owned(),
        }),
        // It was made here, from one.
        metadata: serde_json::from_value(metadata).unwrap_or_default(),
        data: body,
    }
}

fn counted(write: &Write) -> metrics::Write {
    let (verb, kind) = match write {
        Write::Create(object) => ("create", object.kind.name()),
        Write::Update(object) => ("update", object.kind.name()),
        Write::Delete { kind, .. } => ("delete", kind.name()),
        Write::DeletePods(_) => ("delete", "Pod"),
        Write::Status(_) => ("status", "ModelServing"),
    };
    metrics::Write { verb, kind }
}
