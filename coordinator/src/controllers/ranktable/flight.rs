//! What takes time: tables are made, records and pods are written. One at a time per group.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, Preconditions};
use muster_proto::delivery::Digest;
use serde_json::json;

use super::compose::{self, Composed, Input, Uncomposed};
use super::member::GroupKey;
use super::record::{self, Content, Record};
use crate::conditions::Condition;
use crate::names;
use crate::write::{WriteError, Writer};
use muster_hub::Hub;
use muster_hub::blob::Blob;

/// Pods that are told of a generation at once.
const TELL: usize = 16;

/// A table that can be handed out.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its generation.
    pub generation: u64,
    /// As it travels.
    pub blob: Arc<Blob>,
}

/// What is to be done for a group.
#[derive(Debug)]
pub enum Task {
    /// Create the record.
    Create(Record),
    /// Write the record as it is.
    Write(Record),
    /// Make a table, and record it as the record's generation.
    Publish {
        /// What it is made from.
        input: Input,
        /// Of the input and of the template, to know them again.
        tried: (Digest, Digest),
        /// The record, without the table.
        record: Record,
    },
    /// Get the recorded table back; from what it was made from, if the record does not hold it.
    Load {
        /// The record.
        record: Arc<Record>,
        /// What it was made from, where that is known.
        input: Option<Input>,
    },
    /// Put the recorded table back into the record: somebody has changed it.
    Mend {
        /// The record.
        record: Record,
        /// The table.
        blob: Arc<Blob>,
    },
    /// Tell pods with a ConfigMap volume of a generation.
    Tell {
        /// It.
        generation: u64,
        /// The pods: name and uid.
        pods: Vec<(String, String)>,
    },
    /// Write the conditions, unless somebody else has changed the record.
    Conditions {
        /// The record's.
        resource_version: String,
        /// They.
        conditions: Vec<Condition>,
    },
    /// Delete the record.
    Delete(Arc<Record>),
}

/// What became of it.
#[derive(Debug)]
pub enum Landed {
    /// The record is this now.
    Recorded(Record),
    /// A table was made and recorded.
    Published {
        /// The record.
        record: Record,
        /// The table.
        composed: Composed,
        /// How long it took to make.
        took: std::time::Duration,
        /// How long it took to write the record.
        wrote: std::time::Duration,
    },
    /// No table could be made.
    Uncomposed {
        /// Why.
        error: Uncomposed,
        /// From this input and template.
        tried: (Digest, Digest),
    },
    /// The recorded table is here.
    Loaded(Table),
    /// The recorded table cannot be had any more.
    Lost,
    /// These pods were told.
    Told(Vec<String>),
    /// The conditions are written.
    Conditions {
        /// The record's now.
        resource_version: String,
        /// They.
        conditions: Vec<Condition>,
    },
    /// The record is gone.
    Deleted,
    /// It ended unexpectedly: a defect.
    Died,
    /// Nothing was written; the record is this, if it could be read.
    Failed {
        /// Why.
        error: WriteError,
        /// What is there now.
        now: Option<Option<Record>>,
    },
}

/// Does it.
pub async fn fly(key: GroupKey, task: Task, writer: Writer, hub: Hub) -> Landed {
    match attempt(&key, task, &writer, hub).await {
        Ok(landed) => landed,
        Err(
            error @ (WriteError::Conflict { .. }
            | WriteError::Exists { .. }
            | WriteError::Late { .. }
            | WriteError::Gone { .. }),
        ) => {
            // Somebody was faster, or nobody knows: look at what is there.
            let (maps, name) = (maps(&key, &writer), names::record(&key.name));
            let now =
                tokio::time::timeout(std::time::Duration::from_secs(5), maps.get_opt(&name)).await;
            let now = now.ok().and_then(Result::ok).map(|map| map.as_ref().map(Record::read));
            Landed::Failed { error, now }
        }
        Err(error) => Landed::Failed { error, now: None },
    }
}

async fn attempt(
    key: &GroupKey,
    task: Task,
    writer: &Writer,
    hub: Hub,
) -> Result<Landed, WriteError> {
    let maps = maps(key, writer);
    let name = names::record(&key.name);
    match task {
        Task::Create(record) => {
            let map: ConfigMap = serde_json::from_value(record.write(key))
                .map_err(|error| unreadable(&name, error))?;
            let made = writer.create(&maps, &map).await?;
            Ok(Landed::Recorded(Record::read(&made)))
        }
        Task::Write(record) => {
            let made: ConfigMap = writer.apply(&maps, &name, &record.write(key)).await?;
            Ok(Landed::Recorded(Record::read(&made)))
        }
        Task::Publish { input, tried, mut record } => {
            let begun = std::time::Instant::now();
            let composed = off(move || {
                let composed = compose::compose(&input, &hub)?;
                let content = composed.content();
                Ok((composed, content))
            });
            let composed = composed.await;
            let took = begun.elapsed();
            let (composed, content) = match composed {
                Some(Ok(both)) => both,
                Some(Err(error)) => return Ok(Landed::Uncomposed { error, tried }),
                None => return Ok(Landed::Uncomposed { error: died(), tried }),
            };
            record.digest = Some(composed.digest());
            record.content = content;
            record.numbering.clone_from(&composed.numbering);
            let begun = std::time::Instant::now();
            let body = record.write(key);
            let made: ConfigMap = writer.apply(&maps, &name, &body).await?;
            let wrote = begun.elapsed();
            // What was written is what we know; the answer tells its version.
            record.resource_version = made.metadata.resource_version.unwrap_or_default();
            record.uid = made.metadata.uid.unwrap_or_default();
            Ok(Landed::Published { record, composed, took, wrote })
        }
        Task::Mend { mut record, blob } => {
            let beside = record.numbering.as_ref().map_or(0, bytes::Bytes::len);
            let content = off(move || {
                let table = blob.table().and_then(|table| String::from_utf8(table).ok());
                table.map(|text| Content::of(&text, beside))
            });
            record.content = content.await.flatten().unwrap_or_default();
            tracing::warn!(group = %key, generation = record.generation, "somebody has changed the record; it is put back");
            let made: ConfigMap = writer.apply(&maps, &name, &record.write(key)).await?;
            Ok(Landed::Recorded(Record::read(&made)))
        }
        Task::Load { record, input } => Ok(load(record, input, hub).await),
        Task::Tell { generation, pods } => {
            Ok(Landed::Told(tell(key, generation, pods, writer).await))
        }
        Task::Conditions { resource_version, conditions } => {
            let change = json!({ "metadata": {
                "resourceVersion": resource_version,
                "annotations": { record::CONDITIONS: record::conditions(&conditions) },
            } });
            let made: ConfigMap = writer.merge(&maps, &name, &change).await?;
            let resource_version = made.metadata.resource_version.unwrap_or_default();
            Ok(Landed::Conditions { resource_version, conditions })
        }
        Task::Delete(record) => {
            let preconditions = Preconditions {
                uid: Some(record.uid.clone()),
                resource_version: Some(record.resource_version.clone()),
            };
            let params =
                DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            writer.delete(&maps, &name, &params).await?;
            Ok(Landed::Deleted)
        }
    }
}

/// The recorded table. Where everything is known that it was made from, it is made again: whoever may write ConfigMaps
/// could have put another one there.
async fn load(record: Arc<Record>, input: Option<Input>, hub: Hub) -> Landed {
    let generation = record.generation;
    let loaded = off(move || {
        // The network may look otherwise today; that is no reason to number a running job anew.
        let same = |input: &Input| {
            record.template == Some(input.template.digest()) && input.topology.is_none()
        };
        let blob = match input.filter(same) {
            Some(input) => compose::compose(&input, &hub).ok()?.blob,
            None => hub.pack(&record.table()?).ok()?,
        };
        (Some(blob.digest()) == record.digest).then_some(blob)
    });
    match loaded.await.flatten() {
        Some(blob) => Landed::Loaded(Table { generation, blob }),
        None => Landed::Lost,
    }
}

/// A patch of the pod makes the kubelet look at its volumes at once. Who was told.
async fn tell(
    key: &GroupKey,
    generation: u64,
    pods: Vec<(String, String)>,
    writer: &Writer,
) -> Vec<String> {
    let all = pods.len();
    let api: Api<Pod> = Api::namespaced(writer.client().clone(), &key.namespace);
    let told = futures::stream::iter(pods).map(|(name, uid)| {
        let api = &api;
        async move {
            // With the uid, so that another pod of the same name is not hit.
            let change = json!({ "metadata": {
                "uid": uid,
                "annotations": { names::RANKTABLE_GENERATION: generation.to_string() },
            } });
            match writer.merge::<Pod>(api, &name, &change).await {
                Ok(_) => Some(uid),
                Err(error) => {
                    tracing::debug!(
                        pod = name,
                        reason = error.reason(),
                        "not told of generation {generation}: {error}"
                    );
                    None
                }
            }
        }
    });
    let told: Vec<String> =
        told.buffer_unordered(TELL).filter_map(|told| async move { told }).collect().await;
    if told.len() < all {
        let missed = all - told.len();
        tracing::warn!(group = %key, generation, missed, "pods could not be told, and are told again");
    }
    told
}

fn maps(key: &GroupKey, writer: &Writer) -> Api<ConfigMap> {
    Api::namespaced(writer.client().clone(), &key.namespace)
}

/// Where nobody waits. None if it panicked.
async fn off<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

fn died() -> Uncomposed {
    Uncomposed {
        reason: "internal",
        message: "making the table ended unexpectedly: this is a defect".to_owned(),
    }
}

fn unreadable(name: &str, error: serde_json::Error) -> WriteError {
    let error = Box::new(kube::Error::SerdeError(error));
    WriteError::Refused { what: format!("ConfigMap {name}"), error }
}
