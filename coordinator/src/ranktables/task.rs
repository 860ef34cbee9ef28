//! What takes time: tables are made, records and pods are written. One task at a time per group.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, Preconditions};
use serde_json::json;

use super::compose::{self, ComposeError, ComposeInput};
use super::conditions::Condition;
use super::member::GroupKey;
use super::phase::MadeTable;
use super::record::{self, Content, Record};
use crate::names;
use muster_hub::Hub;
use muster_hub::blob::Blob;
use muster_runtime::writer::{Fenced, WriteError, Writer};

/// Pods that are annotated at once.
const ANNOTATED_AT_ONCE: usize = 16;

/// How long a look at a record may take that somebody else has changed.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What is to be done for a group.
#[derive(Debug)]
pub enum Task {
    /// Create the record.
    Create(Record),
    /// Write the record as it is.
    Write(Record),
    /// Make a table.
    Compose(Box<ComposeInput>),
    /// Write the record of a table that was made.
    Publish(Record),
    /// Get the recorded table back; from what it was made from, if the record does not hold it.
    Load {
        /// The record.
        record: Arc<Record>,
        /// What it was made from, where that is known.
        input: Option<Box<ComposeInput>>,
    },
    /// Put the recorded table back into the record: somebody has changed it.
    Mend {
        /// The record.
        record: Record,
        /// The table.
        blob: Arc<Blob>,
    },
    /// Annotate pods with a ConfigMap volume, so that they look at once.
    AnnotatePods {
        /// With this generation.
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
pub enum TaskResult {
    /// The record is this now.
    Recorded(Record),
    /// A table was made, and this is what its record can hold of it; or none can be made.
    Composed(Result<(MadeTable, Content), ComposeError>),
    /// A table was recorded.
    Published {
        /// The record.
        record: Record,
        /// How long that took.
        took: Duration,
    },
    /// The recorded table is here.
    Loaded {
        /// Its generation.
        generation: u64,
        /// As it travels.
        blob: Arc<Blob>,
    },
    /// The recorded table cannot be had any more.
    Lost,
    /// The pods of these uids are annotated.
    PodsAnnotated(Vec<String>),
    /// The conditions are written.
    Conditions {
        /// The record's now.
        resource_version: String,
        /// They.
        conditions: Vec<Condition>,
    },
    /// The record is gone.
    Deleted,
    /// Nothing was written; the record is this, if it could be read.
    Failed {
        /// Why.
        error: WriteError,
        /// What is there now.
        found: Option<Option<Record>>,
    },
}

/// Runs a task.
pub async fn run(key: GroupKey, task: Task, writer: Writer, hub: Hub) -> TaskResult {
    match attempt(&key, task, &writer, hub).await {
        Ok(result) => result,
        Err(
            error @ (WriteError::Conflict { .. }
            | WriteError::Exists { .. }
            | WriteError::Late { .. }
            | WriteError::Gone { .. }),
        ) => {
            // Somebody was faster, or nobody knows: look at what is there.
            let (maps, name) = (maps(&key, &writer), names::record(&key.name));
            let found = tokio::time::timeout(LOOK_AGAIN, writer.read(&maps, &name)).await;
            let found = found.ok().and_then(Result::ok).map(|map| map.as_ref().map(Record::read));
            TaskResult::Failed { error, found }
        }
        Err(error) => TaskResult::Failed { error, found: None },
    }
}

async fn attempt(
    key: &GroupKey,
    task: Task,
    writer: &Writer,
    hub: Hub,
) -> Result<TaskResult, WriteError> {
    let maps = maps(key, writer);
    let name = names::record(&key.name);
    match task {
        Task::Create(record) => {
            let map: ConfigMap = serde_json::from_value(record.write(key))
                .map_err(|error| unreadable(&name, error))?;
            let made = writer.create(&maps, &map).await?;
            Ok(TaskResult::Recorded(Record::read(&made)))
        }
        Task::Write(record) => {
            let made: ConfigMap = writer.apply(&maps, &name, &record.write(key)).await?;
            Ok(TaskResult::Recorded(Record::read(&made)))
        }
        Task::Compose(input) => Ok(TaskResult::Composed(make(*input, hub).await)),
        Task::Publish(mut record) => {
            let begun = Instant::now();
            let made: ConfigMap = writer.apply(&maps, &name, &record.write(key)).await?;
            let took = begun.elapsed();
            // What was written is what we know; the answer tells its version.
            record.resource_version = made.metadata.resource_version.unwrap_or_default();
            record.uid = made.metadata.uid.unwrap_or_default();
            Ok(TaskResult::Published { record, took })
        }
        Task::Mend { mut record, blob } => {
            let beside = record.numbering.as_ref().map_or(0, bytes::Bytes::len);
            let content = blocking(move || {
                let table = blob.table().and_then(|table| String::from_utf8(table).ok());
                table.map(|text| Content::of(&text, beside))
            });
            record.content = content.await.flatten().unwrap_or_default();
            tracing::warn!(group = %key, generation = record.generation, "somebody has changed the record; it is put back");
            let made: ConfigMap = writer.apply(&maps, &name, &record.write(key)).await?;
            Ok(TaskResult::Recorded(Record::read(&made)))
        }
        Task::Load { record, input } => Ok(load(record, input, hub).await),
        Task::AnnotatePods { generation, pods } => {
            let annotated = annotate(key, generation, pods, writer).await;
            Ok(TaskResult::PodsAnnotated(annotated))
        }
        Task::Conditions { resource_version, conditions } => {
            let change = json!({ "metadata": {
                "resourceVersion": resource_version,
                "annotations": { record::CONDITIONS: record::conditions(&conditions) },
            } });
            let made: ConfigMap = writer.merge(&maps, &name, &change).await?;
            let resource_version = made.metadata.resource_version.unwrap_or_default();
            Ok(TaskResult::Conditions { resource_version, conditions })
        }
        Task::Delete(record) => {
            let preconditions = Preconditions {
                uid: Some(record.uid.clone()),
                resource_version: Some(record.resource_version.clone()),
            };
            let params =
                DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            writer.delete(&maps, &name, &params).await?;
            Ok(TaskResult::Deleted)
        }
    }
}

/// Makes a table, and packs it for the wire.
async fn make(input: ComposeInput, hub: Hub) -> Result<(MadeTable, Content), ComposeError> {
    let begun = Instant::now();
    let made = blocking(move || {
        let composed = compose::compose(input)?;
        let blob = hub.pack(composed.text.as_bytes())?;
        let content = composed.content();
        Ok((MadeTable { composed, blob, took: begun.elapsed() }, content))
    });
    made.await.unwrap_or(Err(ComposeError::Panicked))
}

/// The recorded table. Where everything is known that it was made from, it is made again: whoever may write ConfigMaps
/// could have put another one there.
async fn load(record: Arc<Record>, input: Option<Box<ComposeInput>>, hub: Hub) -> TaskResult {
    let generation = record.generation;
    let loaded = blocking(move || {
        // The network may look otherwise today; that is no reason to number a running job anew.
        let same = |input: &ComposeInput| {
            record.template == Some(input.template.digest()) && input.topology.is_none()
        };
        let blob = match input.filter(|input| same(input)) {
            Some(input) => hub.pack(compose::compose(*input).ok()?.text.as_bytes()).ok()?,
            None => hub.pack(&record.table()?).ok()?,
        };
        (Some(blob.digest()) == record.digest).then_some(blob)
    });
    match loaded.await.flatten() {
        Some(blob) => TaskResult::Loaded { generation, blob },
        None => TaskResult::Lost,
    }
}

/// A patch of the pod makes the kubelet look at its volumes at once. The uids of those that were annotated.
async fn annotate(
    key: &GroupKey,
    generation: u64,
    pods: Vec<(String, String)>,
    writer: &Writer,
) -> Vec<String> {
    let all = pods.len();
    let api = writer.namespaced::<Pod>(&key.namespace);
    let annotated = futures::stream::iter(pods).map(|(name, uid)| {
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
    let annotated = annotated.buffer_unordered(ANNOTATED_AT_ONCE);
    let annotated: Vec<String> = annotated.filter_map(async |uid| uid).collect().await;
    if annotated.len() < all {
        let missed = all - annotated.len();
        tracing::warn!(group = %key, generation, missed, "pods could not be told, and are told again");
    }
    annotated
}

fn maps(key: &GroupKey, writer: &Writer) -> Fenced<ConfigMap> {
    writer.namespaced(&key.namespace)
}

/// Where nobody waits. None if it panicked.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

fn unreadable(name: &str, error: serde_json::Error) -> WriteError {
    let error = Box::new(kube::Error::SerdeError(error));
    WriteError::Refused { what: format!("ConfigMap {name}"), error }
}
