//! What the volumes of a pod hold. No I/O: [`writer`] brings it to the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use muster_objects::meta;
use serde_json::Value;

use super::lifecycle::{list, text};

mod fact;
#[cfg(test)]
mod tests;
pub mod writer;

pub use fact::Fact;

/// A volume of a pod that the node makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// Its name in the pod.
    pub name: String,
    /// What it is.
    pub kind: VolumeKind,
}

/// What a volume is.
#[derive(Clone, Debug, PartialEq)]
pub enum VolumeKind {
    /// An empty directory that everybody may write.
    EmptyDir,
    /// A path of the node; nothing to make.
    HostPath(String),
    /// Files from sources, kept up to date.
    Files {
        /// The plugin's directory.
        plugin: &'static str,
        /// A later one wins.
        sources: Vec<Source>,
    },
}

/// Where files come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A ConfigMap or Secret; all keys or some.
    Keys {
        /// The object that the volume shows.
        object: Object,
        /// Whether it may be missing.
        optional: bool,
        /// Empty: every key.
        items: Vec<Item>,
        /// Of files that name none.
        mode: u32,
    },
    /// Facts of the pod.
    Facts {
        /// Path, fact and mode.
        items: Vec<(String, Fact, u32)>,
    },
    /// A token of the pod's service account.
    Token {
        /// What to ask for.
        request: TokenRequest,
        /// Path of the file within the volume.
        path: String,
        /// Of the file.
        mode: u32,
    },
}

/// A ConfigMap or Secret of the pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// A ConfigMap, by name.
    ConfigMap(String),
    /// A Secret, by name.
    Secret(String),
}

/// One key as a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    key: String,
    path: String,
    mode: Option<u32>,
}

/// A token to ask for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenRequest {
    /// Empty: the API server's.
    pub audience: String,
    /// How long the token is valid.
    pub seconds: i64,
}

/// What was fetched for a pod's volumes and environment.
#[derive(Clone, Debug, Default)]
pub struct Fetched {
    /// Those that exist.
    pub objects: BTreeMap<Object, Value>,
    /// The tokens that the API server issued.
    pub tokens: BTreeMap<TokenRequest, String>,
}

/// Files by path, with mode.
pub type Files = BTreeMap<String, (Vec<u8>, u32)>;

/// Why a volume cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// The object is not there.
    #[error("MountVolume.SetUp failed for volume \"{volume}\" : {kind} \"{name}\" not found")]
    Missing {
        /// Name of the volume.
        volume: String,
        /// `configmap` or `secret`.
        kind: &'static str,
        /// Name of the object.
        name: String,
    },
    /// The object lacks a key.
    #[error(
        "MountVolume.SetUp failed for volume \"{volume}\" : references non-existent key: {key}"
    )]
    Key {
        /// Name of the volume.
        volume: String,
        /// The key within the object.
        key: String,
    },
    /// A path leaves the volume.
    #[error("MountVolume.SetUp failed for volume \"{volume}\" : invalid path: {path}")]
    Path {
        /// Name of the volume.
        volume: String,
        /// The path within the volume.
        path: String,
    },
    /// There is no token yet.
    #[error("MountVolume.SetUp failed for volume \"{volume}\" : failed to fetch token")]
    Token {
        /// Name of the volume.
        volume: String,
    },
}

/// The volumes that a node makes for the pod; kinds that no simulated node has are left out.
pub fn plan(pod: &Value) -> Vec<Volume> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    list(spec, "volumes")
        .iter()
        .filter_map(|volume| {
            let name = text(volume, "name").to_owned();
            Some(Volume { name, kind: kind(volume)? })
        })
        .collect()
}

fn kind(volume: &Value) -> Option<VolumeKind> {
    if volume.get("emptyDir").is_some() {
        return Some(VolumeKind::EmptyDir);
    }
    if let Some(host) = volume.get("hostPath") {
        return Some(VolumeKind::HostPath(text(host, "path").to_owned()));
    }
    let one = |field: &str| volume.get(field);
    let (plugin, sources) = if let Some(map) = one("configMap") {
        ("kubernetes.io~configmap", vec![keys(map, Object::ConfigMap, "name", default_mode(map))])
    } else if let Some(secret) = one("secret") {
        (
            "kubernetes.io~secret",
            vec![keys(secret, Object::Secret, "secretName", default_mode(secret))],
        )
    } else if let Some(facts) = one("downwardAPI") {
        ("kubernetes.io~downward-api", vec![self::facts(facts, default_mode(facts))])
    } else if let Some(projected) = one("projected") {
        let mode = default_mode(projected);
        let sources = list(projected, "sources").iter().filter_map(|s| source(s, mode)).collect();
        ("kubernetes.io~projected", sources)
    } else {
        return None;
    };
    Some(VolumeKind::Files { plugin, sources })
}

fn source(source: &Value, mode: u32) -> Option<Source> {
    if let Some(map) = source.get("configMap") {
        return Some(keys(map, Object::ConfigMap, "name", mode));
    }
    if let Some(secret) = source.get("secret") {
        return Some(keys(secret, Object::Secret, "name", mode));
    }
    if let Some(facts) = source.get("downwardAPI") {
        return Some(self::facts(facts, mode));
    }
    let token = source.get("serviceAccountToken")?;
    let seconds = token.get("expirationSeconds").and_then(Value::as_i64).unwrap_or(3600);
    let request = TokenRequest { audience: text(token, "audience").to_owned(), seconds };
    Some(Source::Token { request, path: text(token, "path").to_owned(), mode })
}

fn keys(source: &Value, object: fn(String) -> Object, name: &str, mode: u32) -> Source {
    let items = list(source, "items")
        .iter()
        .map(|item| Item {
            key: text(item, "key").to_owned(),
            path: text(item, "path").to_owned(),
            mode: number(item, "mode"),
        })
        .collect();
    let optional = source.get("optional") == Some(&Value::Bool(true));
    Source::Keys { object: object(text(source, name).to_owned()), optional, items, mode }
}

fn facts(source: &Value, mode: u32) -> Source {
    let items = list(source, "items")
        .iter()
        .map(|item| {
            let path = text(item, "path").to_owned();
            (path, Fact::read(item), number(item, "mode").unwrap_or(mode))
        })
        .collect();
    Source::Facts { items }
}

fn default_mode(source: &Value) -> u32 {
    number(source, "defaultMode").unwrap_or(0o644)
}

fn number(value: &Value, field: &str) -> Option<u32> {
    value.get(field).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok())
}

// === impl Volume ===

impl Volume {
    /// Where the volume is on the node whose files are below `root`.
    pub fn directory(&self, root: &Path, uid: &str) -> PathBuf {
        let volumes = pod_directory(root, uid).join("volumes");
        match &self.kind {
            VolumeKind::EmptyDir => volumes.join("kubernetes.io~empty-dir").join(&self.name),
            VolumeKind::HostPath(path) => root.join(path.trim_start_matches('/')),
            VolumeKind::Files { plugin, .. } => volumes.join(plugin).join(&self.name),
        }
    }

    /// Which objects and tokens it needs.
    pub fn needs(&self) -> (BTreeSet<Object>, BTreeSet<TokenRequest>) {
        let (mut objects, mut tokens) = (BTreeSet::new(), BTreeSet::new());
        if let VolumeKind::Files { sources, .. } = &self.kind {
            for source in sources {
                match source {
                    Source::Keys { object, .. } => drop(objects.insert(object.clone())),
                    Source::Token { request, .. } => drop(tokens.insert(request.clone())),
                    Source::Facts { .. } => {}
                }
            }
        }
        (objects, tokens)
    }

    /// Its files, or why it has none yet. A later source wins over an earlier one.
    pub fn files(&self, pod: &Value, fetched: &Fetched) -> Result<Files, VolumeError> {
        let mut files = Files::new();
        let VolumeKind::Files { sources, .. } = &self.kind else { return Ok(files) };
        let volume = || self.name.clone();
        for source in sources {
            match source {
                Source::Keys { object, optional, items, mode } => {
                    let Some(found) = fetched.objects.get(object) else {
                        if *optional {
                            continue;
                        }
                        let (kind, name) = object.kind_and_name();
                        let name = name.to_owned();
                        return Err(VolumeError::Missing { volume: volume(), kind, name });
                    };
                    let data = content(object, found);
                    if items.is_empty() {
                        files.extend(data.into_iter().map(|(key, bytes)| (key, (bytes, *mode))));
                        continue;
                    }
                    for Item { key, path, mode: own } in items {
                        match data.get(key) {
                            Some(bytes) => {
                                let mode = own.unwrap_or(*mode);
                                files.insert(path.clone(), (bytes.clone(), mode));
                            }
                            None if *optional => {}
                            None => {
                                let key = key.clone();
                                return Err(VolumeError::Key { volume: volume(), key });
                            }
                        }
                    }
                }
                Source::Facts { items } => {
                    for (path, fact, mode) in items {
                        files.insert(path.clone(), (fact.of(pod, "").into_bytes(), *mode));
                    }
                }
                Source::Token { request, path, mode } => {
                    let token = fetched.tokens.get(request);
                    let token = token.ok_or_else(|| VolumeError::Token { volume: volume() })?;
                    files.insert(path.clone(), (token.clone().into_bytes(), *mode));
                }
            }
        }
        match files.keys().find(|path| !is_inside(path)) {
            Some(path) => Err(VolumeError::Path { volume: volume(), path: path.clone() }),
            None => Ok(files),
        }
    }
}

// === impl Object ===

impl Object {
    /// `configmap` or `secret`, and the name.
    pub fn kind_and_name(&self) -> (&'static str, &str) {
        match self {
            Self::ConfigMap(name) => ("configmap", name),
            Self::Secret(name) => ("secret", name),
        }
    }
}

/// The keys of a ConfigMap or Secret as bytes.
pub fn content(object: &Object, value: &Value) -> BTreeMap<String, Vec<u8>> {
    let mut data = BTreeMap::new();
    let (plain, encoded) = match object {
        Object::ConfigMap(_) => (value.get("data"), value.get("binaryData")),
        Object::Secret(_) => (None, value.get("data")),
    };
    for (key, text) in plain.and_then(Value::as_object).into_iter().flatten() {
        data.insert(key.clone(), text.as_str().unwrap_or_default().as_bytes().to_vec());
    }
    for (key, text) in encoded.and_then(Value::as_object).into_iter().flatten() {
        let bytes = STANDARD.decode(text.as_str().unwrap_or_default()).unwrap_or_default();
        data.insert(key.clone(), bytes);
    }
    data
}

fn is_inside(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    !path.is_empty()
        && !path.starts_with("..")
        && parts.iter().all(|part| !part.is_empty() && *part != ".." && *part != ".")
}

/// Where a mount's `subPath` is in its volume; `None` when it leads out of it.
pub fn sub_path(volume: &Path, below: &str) -> Option<PathBuf> {
    use std::path::Component;
    let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    let safe = Path::new(below).components().all(inside);
    safe.then(|| if below.is_empty() { volume.to_owned() } else { volume.join(below) })
}

/// The pod's own directory on the node.
pub fn pod_directory(root: &Path, uid: &str) -> PathBuf {
    root.join("var/lib/kubelet/pods").join(uid)
}

/// Whether the pod's volumes can change while it runs.
pub fn can_change(volumes: &[Volume]) -> bool {
    volumes.iter().any(|v| matches!(v.kind, VolumeKind::Files { .. }))
}

/// Whether the pod's uid and volume names are safe as names of directories.
pub fn is_safe(pod: &Value, volumes: &[Volume]) -> bool {
    let safe = |name: &str| !name.is_empty() && !name.contains('/') && !name.starts_with('.');
    safe(meta::uid(pod)) && volumes.iter().all(|v| safe(&v.name))
}
