//! Pods of our schedulers that share a device: judged, and given what the binder fills in later.

use serde_json::{Map, Value, json};

use super::{Refused, device};
use crate::object::Object;

/// An annotation: how the names of a pod's ConfigMaps begin.
const CONFIG_MAP: &str = "runai/shared-gpu-configmap";
/// How names of ConfigMaps end, before the container's number.
const SUFFIX: &str = "shared-gpu";
/// Names of volumes are no longer.
const LONGEST: usize = 63;
/// Of the key that tells pods of one owner apart.
const KEY: usize = 7;

/// Settings of the admission of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Whose pods are looked at.
    pub scheduler_names: Vec<String>,
    /// Whether devices may be shared.
    pub enabled: bool,
    /// The runtime class of pods that share a device and name none. Empty: none.
    pub runtime_class: String,
}

// === impl Sharing ===

impl Default for Sharing {
    fn default() -> Self {
        Self {
            scheduler_names: vec!["muster-scheduler".to_owned()],
            enabled: true,
            runtime_class: "nvidia".to_owned(),
        }
    }
}

impl Sharing {
    /// Whether a pod names one of our schedulers.
    pub fn is_ours(&self, pod: &Object) -> bool {
        let scheduler = pod.raw().pointer("/spec/schedulerName").and_then(Value::as_str);
        scheduler.is_some_and(|name| self.scheduler_names.iter().any(|ours| ours == name))
    }

    /// Judges a pod.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn check(&self, pod: &Object) -> Result<(), Refused> {
        if !self.is_ours(pod) {
            return Ok(());
        }
        if !self.enabled && device::is_shared(pod) {
            let (field, remedy) = ("metadata.annotations", "ask for whole devices");
            let detail = "devices are not shared in this cluster";
            return Err(Refused::new("sharing-disabled", pod, field, detail, remedy));
        }
        device::check(pod)
    }

    /// The pod as it is created. `namespace` is the request's; `key` makes the names of its ConfigMaps its own: seven
    /// letters or digits.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn mutate(&self, pod: &Object, namespace: &str, key: &str) -> Result<Value, Refused> {
        let mut raw = pod.raw().clone();
        if !self.is_ours(pod) {
            return Ok(raw);
        }
        let own = pod.namespace();
        if !own.is_empty() && !namespace.is_empty() && own != namespace {
            let detail = format!("the request is for namespace {namespace}");
            let (field, remedy) = ("metadata.namespace", "leave it out, or name the same");
            return Err(Refused::new("namespace-mismatch", pod, field, detail, remedy));
        }
        if own.is_empty() && !namespace.is_empty() {
            set(&mut raw, &["metadata", "namespace"], namespace);
        }
        let has_containers = pod.raw().pointer("/spec/containers").and_then(Value::as_array);
        if !device::is_shared(pod) || has_containers.is_none_or(Vec::is_empty) {
            return Ok(raw);
        }
        let Place { list, index } = container(pod)?;
        let prefix = match pod.annotation(CONFIG_MAP) {
            Some(prefix) => prefix.to_owned(),
            None => {
                let prefix = prefix(pod, index, key);
                set(&mut raw, &["metadata", "annotations", CONFIG_MAP], &prefix);
                prefix
            }
        };
        let mark = if list == "initContainers" { "i" } else { "" };
        let map = format!("{prefix}-{mark}{index}");
        let at = format!("/spec/{list}/{index}");
        if let Some(container) = raw.pointer_mut(&at).and_then(Value::as_object_mut) {
            dress(container, &map);
        }
        if let Some(spec) = raw.get_mut("spec").and_then(Value::as_object_mut) {
            add_volume(spec, &map);
        }
        let class = pod.raw().pointer("/spec/runtimeClassName").and_then(Value::as_str);
        if class.is_none_or(str::is_empty) && !self.runtime_class.is_empty() {
            set(&mut raw, &["spec", "runtimeClassName"], &self.runtime_class);
        }
        Ok(raw)
    }
}

/// Which container gets the device.
pub(super) struct Place {
    pub(super) list: &'static str,
    pub(super) index: usize,
}

pub(super) fn container(pod: &Object) -> Result<Place, Refused> {
    let Some(name) = pod.annotation(device::CONTAINER) else {
        return Ok(Place { list: "containers", index: 0 });
    };
    for list in ["initContainers", "containers"] {
        let containers = pod.raw().pointer(&format!("/spec/{list}")).and_then(Value::as_array);
        let named = |container: &Value| container.get("name").and_then(Value::as_str) == Some(name);
        if let Some(index) = containers.and_then(|all| all.iter().position(named)) {
            return Ok(Place { list, index });
        }
    }
    let field = format!("metadata.annotations[{}]", device::CONTAINER);
    let detail = format!("there is no container {name}");
    Err(Refused::new("fraction-container", pod, field, detail, "name a container of the pod"))
}

/// How the names of the pod's ConfigMaps begin: short enough that the volume's name fits.
fn prefix(pod: &Object, index: usize, key: &str) -> String {
    let owner = pod.owners().into_iter().next().map(|owner| owner.name);
    let generated = pod.raw().pointer("/metadata/generateName").and_then(Value::as_str);
    let own = Some(pod.name()).filter(|name| !name.is_empty()).or(generated).unwrap_or_default();
    let base = owner.unwrap_or_else(|| own.to_owned());
    let number = index.to_string().len() + 1;
    let around = "-vol".len() + "--".len() + KEY + SUFFIX.len() + number + "-evar".len();
    let mut end = LONGEST.saturating_sub(around).min(base.len());
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let base = base.get(..end).unwrap_or_default().trim_end_matches(['.', '-']);
    format!("{base}-{key}-{SUFFIX}")
}

fn dress(container: &mut Map<String, Value>, map: &str) {
    let named =
        |variable: &Value, name: &str| variable.get("name").and_then(Value::as_str) == Some(name);
    let mut env = taken(container, "env");
    for name in ["NVIDIA_VISIBLE_DEVICES", "RUNAI_NUM_OF_GPUS", "GPU_PORTION"] {
        env.retain(|variable| !named(variable, name));
        env.push(json!({
            "name": name,
            "valueFrom": {"configMapKeyRef": {"key": name, "name": map}},
        }));
    }
    container.insert("env".to_owned(), env.into());
    let mut from = taken(container, "envFrom");
    let name = format!("{map}-evar");
    let there = |source: &Value| {
        source.pointer("/configMapRef/name").and_then(Value::as_str) == Some(&name)
    };
    if !from.iter().any(there) {
        from.push(json!({"configMapRef": {"name": name, "optional": false}}));
    }
    container.insert("envFrom".to_owned(), from.into());
}

fn add_volume(spec: &mut Map<String, Value>, map: &str) {
    let name = format!("{map}-vol");
    let mut volumes = taken(spec, "volumes");
    volumes.retain(|other| other.get("name").and_then(Value::as_str) != Some(&name));
    volumes.push(json!({"name": name, "configMap": {"name": map}}));
    spec.insert("volumes".to_owned(), volumes.into());
}

/// The list of that name, taken out; an empty one where there is none.
fn taken(map: &mut Map<String, Value>, key: &str) -> Vec<Value> {
    match map.remove(key) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// Sets a text. What lies on the way and is no object stays as it is.
fn set(raw: &mut Value, path: &[&str], text: &str) {
    let mut at = raw;
    for part in path {
        let Some(map) = at.as_object_mut() else { return };
        at = map.entry(*part).or_insert_with(|| Map::new().into());
    }
    *at = text.into();
}
