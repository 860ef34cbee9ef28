//! Reads a document: plain lists of objects, KAI's snapshot (also packed), or a scenario file that holds one of these.

use std::{borrow::Cow, collections::HashSet, fmt};

use jiff::Timestamp;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::{
    Input, Meta, archive,
    lists::{List, Top},
};

/// How much is read.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the document, and of what a packed one unfolds to.
    pub bytes: usize,
    /// Objects of one kind.
    pub objects: usize,
}

/// A document that was read.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// The objects of the file.
    pub input: Input,
    /// The scheduler's configuration, as it stands there.
    pub config: Option<Box<RawValue>>,
    /// The scheduler's command line, as it stands there.
    pub scheduler_params: Option<Box<RawValue>>,
}

/// An object that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Its kind, such as `Pod`.
    pub kind: &'static str,
    /// `namespace/name`, or its place in the list if it has none.
    pub object: String,
    /// Where: `spec.containers[0].resources.requests.cpu`.
    pub field: String,
    /// What is wrong.
    pub problem: String,
    /// What to correct in the object.
    pub remedy: String,
}

/// Why a document could not be read at all.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It is too large.
    #[error("the document has more than {0} bytes: split it, or leave out what is not asked about")]
    TooLarge(usize),
    /// It has too many objects of one kind.
    #[error("`{list}` has more than {limit} objects: split the document")]
    TooMany {
        /// Name of the list in the file.
        list: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// It is no archive that can be opened.
    #[error("the archive cannot be read: {0}")]
    Archive(#[from] archive::ArchiveError),
    /// It is not JSON, or a list is no list.
    #[error("the document cannot be read: {0}")]
    Json(#[from] serde_json::Error),
}

/// Reads a document.
pub fn load(bytes: &[u8], limits: Limits) -> Result<Document, LoadError> {
    if bytes.len() > limits.bytes {
        return Err(LoadError::TooLarge(limits.bytes));
    }
    let bytes = if archive::is_archive(bytes) {
        Cow::Owned(archive::unpack(bytes, "snapshot.json", limits.bytes)?)
    } else {
        Cow::Borrowed(bytes)
    };
    let mut top: Top<'_> = serde_json::from_slice(&bytes)?;
    if let Some(inner) = top.input.take() {
        top = *inner;
    }
    let mut reading = Reading { limits, set_aside: Vec::new() };
    let now = reading.instant(top.now.take());
    let owned =
        |raw: Option<&RawValue>| raw.map(ToOwned::to_owned).filter(|raw| raw.get() != "null");
    let (config, scheduler_params) = (owned(top.config.take()), owned(top.scheduler_params.take()));
    let usage = top.usage.take();
    let lists = top.raw_objects.take().map_or(top, |lists| *lists);
    let mut input = reading.objects(lists)?;
    input.usage = reading.usage(usage);
    input.now = now;
    input.set_aside = reading.set_aside;
    Ok(Document { input, config, scheduler_params })
}

/// What is being read, and what could not be.
struct Reading {
    limits: Limits,
    set_aside: Vec<SetAside>,
}

/// An object with a name.
trait Named {
    fn meta(&self) -> &Meta;
    fn meta_mut(&mut self) -> &mut Meta;
}

macro_rules! named {
    ($($kind:ident),*) => {
        $(impl Named for super::$kind {
            fn meta(&self) -> &Meta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut Meta {
                &mut self.metadata
            }
        })*
    };
}

named!(
    Node,
    Pod,
    Queue,
    PodGroup,
    Topology,
    PriorityClass,
    BindRequest,
    ConfigMap,
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    CsiDriver,
    CsiCapacity,
    ResourceClaim,
    ResourceSlice,
    DeviceClass,
    NodeResourceTopology
);

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 1 << 30, objects: 4_000_000 }
    }
}

// === impl Reading ===

impl Reading {
    fn objects(&mut self, top: Top<'_>) -> Result<Input, LoadError> {
        const SPACED: &str = "default";
        Ok(Input {
            nodes: self.list("Node", "nodes", top.nodes, "")?,
            pods: self.list("Pod", "pods", top.pods, SPACED)?,
            queues: self.list("Queue", "queues", top.queues, "")?,
            pod_groups: self.list("PodGroup", "podGroups", top.pod_groups, SPACED)?,
            topologies: self.list("Topology", "topologies", top.topologies, "")?,
            priority_classes: self.list(
                "PriorityClass",
                "priorityClasses",
                top.priority_classes,
                "",
            )?,
            bind_requests: self.list("BindRequest", "bindRequests", top.bind_requests, SPACED)?,
            config_maps: self.list("ConfigMap", "configMaps", top.config_maps, SPACED)?,
            persistent_volume_claims: self.list(
                "PersistentVolumeClaim",
                "persistentVolumeClaims",
                top.persistent_volume_claims,
                SPACED,
            )?,
            persistent_volumes: self.list(
                "PersistentVolume",
                "persistentVolumes",
                top.persistent_volumes,
                "",
            )?,
            storage_classes: self.list(
                "StorageClass",
                "storageClasses",
                top.storage_classes,
                "",
            )?,
            csi_drivers: self.list("CSIDriver", "csiDrivers", top.csi_drivers, "")?,
            csi_capacities: self.list(
                "CSIStorageCapacity",
                "csiStorageCapacities",
                top.csi_storage_capacities,
                SPACED,
            )?,
            resource_claims: self.list(
                "ResourceClaim",
                "resourceClaims",
                top.resource_claims,
                SPACED,
            )?,
            resource_slices: self.list(
                "ResourceSlice",
                "resourceSlices",
                top.resource_slices,
                "",
            )?,
            device_classes: self.list("DeviceClass", "deviceClasses", top.device_classes, "")?,
            node_resource_topologies: self.list(
                "NodeResourceTopology",
                "nodeResourceTopologies",
                top.node_resource_topologies,
                "",
            )?,
            inventories: self.each("Inventory", "inventories", top.inventories)?,
            ..Input::default()
        })
    }

    /// A list of objects: each read for itself, each with a name, no name twice.
    fn list<T: DeserializeOwned + Named>(
        &mut self,
        kind: &'static str,
        list: &'static str,
        raw: List<'_>,
        namespace: &str,
    ) -> Result<Vec<T>, LoadError> {
        let mut objects: Vec<T> = self.each(kind, list, raw)?;
        for object in &mut objects {
            if object.meta().namespace.is_empty() {
                object.meta_mut().namespace.push_str(namespace);
            }
        }
        let refused = refused(&objects);
        if refused.contains(&true) {
            let mut at = refused.iter();
            objects.retain(|object| {
                let refuse = at.next().copied().unwrap_or_default();
                if refuse {
                    self.set_aside.push(bad_name(kind, list, object.meta()));
                }
                !refuse
            });
        }
        Ok(objects)
    }

    fn each<T: DeserializeOwned>(
        &mut self,
        kind: &'static str,
        list: &'static str,
        raw: List<'_>,
    ) -> Result<Vec<T>, LoadError> {
        let raw = raw.unwrap_or_default();
        if raw.len() > self.limits.objects {
            return Err(LoadError::TooMany { list, limit: self.limits.objects });
        }
        let mut objects = Vec::with_capacity(raw.len());
        for (at, text) in raw.into_iter().enumerate() {
            match serde_json::from_str(text.get()) {
                Ok(object) => objects.push(object),
                Err(_) => self.set_aside.extend(unreadable::<T>(kind, list, at, text.get())),
            }
        }
        Ok(objects)
    }

    fn instant(&mut self, text: Option<Cow<'_, str>>) -> Option<Timestamp> {
        let text = text?;
        let read = text.parse();
        if read.is_err() {
            self.set_aside.push(SetAside {
                kind: "Document",
                object: "now".to_owned(),
                field: "now".to_owned(),
                problem: format!("`{}` is no instant", text.chars().take(64).collect::<String>()),
                remedy: "write it as 2026-01-01T00:00:00Z".to_owned(),
            });
        }
        read.ok()
    }

    fn usage(&mut self, raw: Option<&RawValue>) -> Vec<(String, super::Usage)> {
        let Some(raw) = raw else { return Vec::new() };
        type Usages = Option<std::collections::BTreeMap<String, super::Usage>>;
        match serde_json::from_str::<Usages>(raw.get()) {
            Ok(usage) => usage.unwrap_or_default().into_iter().collect(),
            Err(_) => {
                self.set_aside.extend(unreadable::<Usages>("Usage", "usage", 0, raw.get()));
                Vec::new()
            }
        }
    }
}

// === impl SetAside ===

impl fmt::Display for SetAside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, object, field, problem, remedy } = self;
        write!(f, "{kind} {object}: {field}: {problem}; {remedy}")
    }
}

/// Which objects have no name, or one that an earlier object has.
fn refused<T: Named>(objects: &[T]) -> Vec<bool> {
    let mut seen = HashSet::with_capacity(objects.len());
    let metas = objects.iter().map(Named::meta);
    metas.map(|meta| meta.name.is_empty() || !seen.insert((&meta.namespace, &meta.name))).collect()
}

fn bad_name(kind: &'static str, list: &str, meta: &Meta) -> SetAside {
    let (object, problem, remedy) = if meta.name.is_empty() {
        (format!("{list}[?]"), "it is missing", "give the object a name")
    } else {
        let name = full_name(&meta.namespace, &meta.name);
        (name, "another object has this name", "leave one of the two out")
    };
    SetAside {
        kind,
        object,
        field: "metadata.name".to_owned(),
        problem: problem.to_owned(),
        remedy: remedy.to_owned(),
    }
}

fn full_name(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Reads an object once more to say what is wrong with it.
fn unreadable<T: DeserializeOwned>(
    kind: &'static str,
    list: &'static str,
    at: usize,
    text: &str,
) -> Option<SetAside> {
    #[derive(Deserialize)]
    struct Name {
        metadata: Meta,
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let error = serde_path_to_error::deserialize::<_, T>(&mut reader).err()?;
    let object = serde_json::from_str::<Name>(text)
        .ok()
        .filter(|name| !name.metadata.name.is_empty())
        .map_or_else(
            || format!("{list}[{at}]"),
            |name| full_name(&name.metadata.namespace, &name.metadata.name),
        );
    let field = error.path().to_string();
    let message = error.into_inner().to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    let (problem, remedy) = match message.split_once(": write ") {
        Some((problem, remedy)) => (problem, format!("write {remedy}")),
        None => (message, "give it a value of the type that the object's API says".to_owned()),
    };
    Some(SetAside { kind, object, field, problem: problem.to_owned(), remedy })
}
