//! A pod, as it is created: the template, labels, the three variables, the gang's annotations, plugins, and last of
//! all whatever the [`PodMutator`] adds.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use crate::api::{ModelServing, PodTemplate, Role};
use crate::naming::{self, Shape};
use crate::plugins::Chain;

/// How many pods the instance has.
pub const GROUP_SIZE: &str = "GROUP_SIZE";
/// Where its entry pod is.
pub const ENTRY_ADDRESS: &str = "ENTRY_ADDRESS";
/// Which of its pods this one is.
pub const WORKER_INDEX: &str = "WORKER_INDEX";

/// The place of a pod in its ModelServing.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'a> {
    /// The ModelServing.
    pub serving: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// The group.
    pub group: &'a str,
    /// The role.
    pub role: &'a str,
    /// The instance of the role.
    pub role_id: &'a str,
    /// The pod in the instance: 0 is the entry.
    pub index: i32,
    /// How many pods the instance has.
    pub size: i32,
    /// The pod's name.
    pub name: &'a str,
    /// All roles that its group is made from.
    pub roles: &'a [Role],
}

/// What else is done to a pod before it is created. Comes last, after plugins.
pub trait PodMutator {
    /// Changes the pod, or says why it cannot be made.
    fn pod(&self, slot: &Slot<'_>, pod: &mut Value) -> Result<(), String>;
}

/// Nothing else is done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

/// What all pods of a plan have in common.
#[derive(Clone, Copy)]
pub struct Maker<'a> {
    /// Whose they are.
    pub serving: &'a ModelServing,
    /// How they are named.
    pub shape: Shape,
    /// A PodGroup holds them together.
    pub gang: bool,
    /// The plugins.
    pub chain: &'a Chain,
    /// What comes last.
    pub mutator: &'a dyn PodMutator,
}

/// What a pod is made from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its role.
    pub role: &'a Role,
    /// The revision of all roles.
    pub revision: &'a str,
    /// The hash of its role.
    pub hash: &'a str,
}

// === impl Plain ===

impl PodMutator for Plain {
    fn pod(&self, _: &Slot<'_>, _: &mut Value) -> Result<(), String> {
        Ok(())
    }
}

/// The pod of a slot: the only way in which pods are made.
pub fn make(maker: &Maker<'_>, slot: &Slot<'_>, source: &Source<'_>) -> Result<Value, String> {
    let entry = slot.index == 0;
    let worker = source.role.worker_template.as_ref();
    let template = if entry { Some(&source.role.entry_template) } else { worker };
    let template = template.ok_or_else(|| format!("role {} has no worker template", slot.role))?;
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), slot.name.into());
    metadata.insert("namespace".to_owned(), slot.namespace.into());
    metadata.insert("labels".to_owned(), labels(slot, source, template).into());
    let annotations = annotations(maker, slot, template);
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), annotations.into());
    }
    metadata.insert("ownerReferences".to_owned(), json!([maker.shape.owner(maker.serving)]));
    let spec = spec(maker, slot, template);
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod"});
    pod["metadata"] = metadata.into();
    pod["spec"] = spec.into();
    maker.chain.pod(maker.serving, slot, &mut pod)?;
    maker.mutator.pod(slot, &mut pod)?;
    Ok(pod)
}

/// The template's own labels win.
fn labels(slot: &Slot<'_>, source: &Source<'_>, template: &PodTemplate) -> Map<String, Value> {
    let mut labels = Map::new();
    let known = [
        (naming::NAME, slot.serving),
        (naming::GROUP, slot.group),
        (naming::ROLE, slot.role),
        (naming::ROLE_ID, slot.role_id),
        (naming::REVISION, source.revision),
        (naming::ROLE_HASH, source.hash),
    ];
    labels.extend(known.map(|(key, value)| (key.to_owned(), value.into())));
    if slot.index == 0 {
        labels.insert(naming::ENTRY.to_owned(), "true".into());
    }
    let own = template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
    let own = own.into_iter().flatten();
    labels.extend(own.map(|(key, value)| (key.clone(), value.as_str().into())));
    labels
}

/// The gang's annotations win over the template's.
fn annotations(maker: &Maker<'_>, slot: &Slot<'_>, template: &PodTemplate) -> Map<String, Value> {
    let own = template.metadata.as_ref().and_then(|metadata| metadata.annotations.as_ref());
    let own = own.into_iter().flatten();
    let mut annotations: Map<String, Value> =
        own.map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    if maker.gang {
        annotations.insert(naming::POD_GROUP.to_owned(), slot.group.into());
        annotations.insert(naming::TASK.to_owned(), slot.role_id.into());
    }
    annotations
}

fn spec(maker: &Maker<'_>, slot: &Slot<'_>, template: &PodTemplate) -> Map<String, Value> {
    let mut spec = template.spec.clone();
    match maker.serving.spec.scheduler_name.as_str() {
        // The short shape leaves it to each pod.
        "" if matches!(maker.shape, naming::Shape::Short) => {}
        "" => drop(spec.remove("schedulerName")),
        scheduler => drop(spec.insert("schedulerName".to_owned(), scheduler.into())),
    }
    let entry = maker.shape.pod(slot.serving, slot.group, slot.role_id, 0);
    let variables = [
        (GROUP_SIZE, slot.size.to_string()),
        (ENTRY_ADDRESS, format!("{entry}.{}", slot.namespace)),
        (WORKER_INDEX, slot.index.to_string()),
    ];
    each_container(&mut spec, |env| {
        env.retain(|own| !variables.iter().any(|(name, _)| own["name"] == *name));
        env.extend(variables.iter().map(|(name, value)| json!({"name": name, "value": value})));
    });
    spec
}

/// Changes the variables of all containers, also of those that run first.
pub(crate) fn each_container(
    spec: &mut Map<String, Value>,
    mut change: impl FnMut(&mut Vec<Value>),
) {
    for key in ["containers", "initContainers"] {
        let containers = spec.get_mut(key).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let env = container.entry("env").or_insert_with(|| json!([]));
            if env.is_null() {
                *env = json!([]);
            }
            if let Some(env) = env.as_array_mut() {
                change(env);
            }
        }
    }
}
