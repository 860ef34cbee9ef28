//! Applies the steps that the machine has decided on, in order. Neighbours that only create pods are applied side by side.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, Preconditions};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use muster_modelserving::shape::Shape;
use muster_modelserving::step::{Failure, Kind, Object, Step, Write};
use serde_json::Value;

use super::Reconcile;
use crate::workloads::modelserving::observed::OwnedName;
use crate::workloads::modelserving::written::{KthenaServing, ShortServing, WatchedServing};
use muster_runtime::writer::{Fenced, WriteError};

/// Pods of one ModelServing that are created side by side.
const MAX_CREATES: usize = 16;

/// What came of a write.
enum Applied {
    Created(Kind, Value),
    /// Something of this name is there already.
    Exists(OwnedName),
    Status(Box<WatchedServing>),
    Nothing,
}

// === impl Reconcile ===

impl Reconcile<'_> {
    /// Applies steps to their end or to a failure; the first one, if any. Whether something that nobody here knows of has a
    /// name that is needed.
    pub(super) async fn apply_steps(&mut self, steps: &[Step]) -> Result<bool, WriteError> {
        let (mut at, mut first, mut taken) = (0, None, false);
        while at < steps.len() && !self.controller.stop.is_cancelled() {
            let creates = steps[at..].iter().take_while(|step| creates_pod(step)).count();
            let batch = &steps[at..at + creates.max(1)];
            let mut results = Vec::with_capacity(batch.len());
            for some in batch.chunks(MAX_CREATES) {
                let writes = some.iter().map(|step| self.write(step.write.as_ref()));
                results.extend(futures::future::join_all(writes).await);
            }
            let mut next = at + batch.len();
            for (step, result) in batch.iter().zip(results) {
                match result {
                    Ok(applied) => taken |= self.done(step, applied),
                    Err(error) => {
                        self.state.machine.failed(step);
                        next = match step.failure {
                            Failure::Stop => steps.len(),
                            Failure::GoOnAt(place) => next.max(place),
                        };
                        if first.is_some() {
                            // The controller counts the first.
                            self.controller.metrics.objects.failed(error.reason());
                        }
                        first.get_or_insert(error);
                    }
                }
            }
            at = next;
        }
        first.map_or(Ok(taken), Err)
    }

    /// A step is done. Whether something else has its name.
    fn done(&mut self, step: &Step, applied: Applied) -> bool {
        let now = self.context.now();
        let state = &mut *self.state;
        state.machine.done(step);
        let mut taken = false;
        match applied {
            Applied::Created(kind, object) => state.observed.created(kind, object, self.key, now),
            Applied::Exists(name) => taken = !state.observed.has(&name),
            Applied::Status(object) => state.object = *object,
            Applied::Nothing => {}
        }
        for note in &step.notes {
            let about = state.object.reference();
            self.context.events.normal(about, note.reason, note.message.clone());
        }
        taken
    }

    /// Whether an object that the controller has created is still there.
    pub(super) async fn is_there(
        &self,
        (kind, name): &OwnedName,
        uid: &str,
    ) -> Result<bool, WriteError> {
        let found = self.context.writer.read(&self.api(*kind), name).await?;
        Ok(found.is_some_and(|found| found.metadata.uid.as_deref() == Some(uid)))
    }

    async fn write(&self, write: Option<&Write>) -> Result<Applied, WriteError> {
        let Some(write) = write else { return Ok(Applied::Nothing) };
        // It is never closed.
        let _permit = self.controller.writes.acquire().await;
        let writer = &self.context.writer;
        let (applied, verb, kind) = match write {
            Write::Create(object) => (self.create(object).await?, "create", object.kind.name()),
            Write::Update(object) => {
                writer.replace(&self.api(object.kind), &dynamic(object)).await?;
                (Applied::Nothing, "update", object.kind.name())
            }
            Write::Delete { kind, name, uid } => {
                self.delete(*kind, name, uid.as_deref()).await?;
                (Applied::Nothing, "delete", kind.name())
            }
            Write::DeletePods(labels) => {
                let terms = labels.iter().map(|(key, value)| format!("{key}={value}"));
                let selector = terms.collect::<Vec<String>>().join(",");
                writer.delete_all(&self.pods(), &selector).await?;
                (Applied::Nothing, "delete", "Pod")
            }
            Write::Status(status) => {
                let status = serde_json::to_value(status).unwrap_or_default();
                let object = self.write_status(status).await?;
                (Applied::Status(Box::new(object)), "status", "ModelServing")
            }
        };
        self.controller.metrics.objects.wrote(verb, kind);
        Ok(applied)
    }

    async fn create(&self, object: &Object) -> Result<Applied, WriteError> {
        match self.context.writer.create(&self.api(object.kind), &dynamic(object)).await {
            Ok(created) => {
                let created = serde_json::to_value(created).unwrap_or_default();
                Ok(Applied::Created(object.kind, created))
            }
            Err(WriteError::Exists { .. }) => {
                Ok(Applied::Exists((object.kind, object.name.clone())))
            }
            Err(error) => Err(error),
        }
    }

    async fn delete(&self, kind: Kind, name: &str, uid: Option<&str>) -> Result<(), WriteError> {
        let this_one = |uid: &str| Preconditions { uid: Some(uid.to_owned()), ..<_>::default() };
        let params = DeleteParams { preconditions: uid.map(this_one), ..DeleteParams::default() };
        let api = self.api(kind);
        match self.context.writer.delete(&api, name, &params).await {
            // Another one has its name by now: the one that was meant is gone.
            Err(WriteError::Conflict { .. }) if uid.is_some() => Ok(()),
            result => result,
        }
    }

    /// Writes the status; the object as it is then.
    pub(super) async fn write_status(&self, status: Value) -> Result<WatchedServing, WriteError> {
        let (writer, key) = (&self.context.writer, self.key);
        let uid = self.state.object.metadata().uid.clone().unwrap_or_default();
        Ok(match key.shape {
            Shape::Kthena => {
                let api = writer.namespaced::<KthenaServing>(&key.namespace);
                WatchedServing::Kthena(
                    writer.status(&api, &key.name, (&uid, None), status).await?.into(),
                )
            }
            Shape::Short => {
                let api = writer.namespaced::<ShortServing>(&key.namespace);
                WatchedServing::Short(
                    writer.status(&api, &key.name, (&uid, None), status).await?.into(),
                )
            }
        })
    }

    pub(super) fn pods(&self) -> Fenced<Pod> {
        self.context.writer.namespaced(&self.key.namespace)
    }

    fn api(&self, kind: Kind) -> Fenced<DynamicObject> {
        let (group, version) = match kind.api_version().split_once('/') {
            Some(parts) => parts,
            None => ("", kind.api_version()),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind.name()));
        self.context.writer.dynamic(&resource, Some(&self.key.namespace))
    }
}

fn creates_pod(step: &Step) -> bool {
    matches!(&step.write, Some(Write::Create(object)) if object.kind == Kind::Pod)
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
