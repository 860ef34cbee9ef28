//! PodGroups: what the scheduler must place at once, and how near to each other.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::api::{ModelServing, PodTemplate, Role};
use crate::budget::role_replicas;
use crate::naming::{self, Shape};
use crate::seen::{PodGroupApi, PodGroupSeen};
use crate::step::{Kind, Object, Write};
use muster_kube::Quantity;

/// A ModelServing has PodGroups if the cluster knows them and its scheduler reads them, whether it asks for a gang or
/// not.
pub(crate) fn wanted(serving: &ModelServing, api: PodGroupApi) -> bool {
    api != PodGroupApi::Absent && serving.spec.scheduler_name == naming::VOLCANO
}

/// The PodGroup of a new group.
pub(crate) fn create(serving: &ModelServing, shape: Shape, group: &str, api: PodGroupApi) -> Write {
    let mut spec = Map::new();
    write_spec(serving, api, &mut spec);
    let mut owner = shape.owner(serving);
    if let Some(owner) = owner.as_object_mut() {
        owner.remove("blockOwnerDeletion");
    }
    let body = json!({
        "apiVersion": Kind::PodGroup.api_version(),
        "kind": Kind::PodGroup.name(),
        "metadata": {
            "name": group,
            "namespace": naming::namespace(serving),
            "labels": {naming::NAME: naming::name(serving), naming::GROUP: group},
            "annotations": {naming::POD_GROUP: group},
            "ownerReferences": [owner],
        },
        "spec": spec,
    });
    Write::Create(Object { kind: Kind::PodGroup, name: group.to_owned(), body })
}

/// What makes the PodGroup say what is asked for now; nothing if it does.
pub(crate) fn update(
    serving: &ModelServing,
    api: PodGroupApi,
    known: &PodGroupSeen<'_>,
) -> Option<Write> {
    let empty = Map::new();
    let old = known.data.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    let mut spec = old.clone();
    write_spec(serving, api, &mut spec);
    let same = |key: &str| filled(old.get(key)) == filled(spec.get(key));
    let number = |spec: &Map<String, Value>| spec.get("minMember").and_then(Value::as_i64);
    if number(old).unwrap_or_default() == number(&spec).unwrap_or_default()
        && amounts(old.get("minResources")) == amounts(spec.get("minResources"))
        && ["networkTopology", "subGroupPolicy", "queue"].into_iter().all(same)
    {
        return None;
    }
    let mut body = known.data.clone();
    body["apiVersion"] = Kind::PodGroup.api_version().into();
    body["kind"] = Kind::PodGroup.name().into();
    body["metadata"] = json!(known.metadata);
    body["spec"] = spec.into();
    Some(Write::Update(Object { kind: Kind::PodGroup, name: known.thing.name.to_owned(), body }))
}

fn filled(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null() && value.as_str() != Some(""))
}

fn amounts(list: Option<&Value>) -> BTreeMap<&str, Option<Quantity>> {
    let list = list.and_then(Value::as_object).into_iter().flatten();
    list.map(|(name, amount)| (name.as_str(), Quantity::of_json(amount))).collect()
}

/// Writes what follows from the ModelServing, and leaves the rest alone.
fn write_spec(serving: &ModelServing, api: PodGroupApi, spec: &mut Map<String, Value>) {
    let template = &serving.spec.template;
    let members = template.roles.iter().map(|role| at_least(serving, role) * size(role));
    spec.insert("minMember".to_owned(), members.sum::<i64>().into());
    spec.insert("minResources".to_owned(), resources(serving).into());
    let topology = template.network_topology.as_ref();
    let policy = topology.and_then(|topology| topology.group_policy.as_ref());
    put(spec, "networkTopology", policy.cloned());
    let annotations = serving.metadata.annotations.as_ref();
    let queue =
        annotations.and_then(|annotations| annotations.get(muster_kube::names::VOLCANO_QUEUE));
    let queue = queue.filter(|queue| !queue.is_empty());
    put(spec, "queue", queue.map(|queue| queue.as_str().into()));
    if api == PodGroupApi::SubGroups {
        let policy = topology.and_then(|topology| topology.role_policy.as_ref());
        let sub_groups = template.roles.iter().map(|role| sub_group(serving, role, policy));
        spec.insert("subGroupPolicy".to_owned(), sub_groups.collect());
    }
}

fn put(spec: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value.filter(|value| !value.is_null()) {
        Some(value) => drop(spec.insert(key.to_owned(), value)),
        None => drop(spec.remove(key)),
    }
}

fn sub_group(serving: &ModelServing, role: &Role, policy: Option<&Value>) -> Value {
    let mut sub_group = json!({
        "name": role.name,
        "labelSelector": {"matchLabels": {
            naming::NAME: naming::name(serving),
            naming::ROLE: role.name,
        }},
        "matchLabelKeys": [naming::ROLE_ID],
        "subGroupSize": size(role),
        "minSubGroups": at_least(serving, role),
    });
    if let Some(policy) = policy.filter(|policy| !policy.is_null()) {
        sub_group["networkTopology"] = policy.clone();
    }
    sub_group
}

/// How many instances of a role must be there at once: all, unless the gang policy asks for fewer.
fn at_least(serving: &ModelServing, role: &Role) -> i64 {
    let replicas = role_replicas(role);
    let policy = serving.spec.template.gang_policy.as_ref();
    let least = policy.and_then(|policy| policy.min_role_replicas.as_ref());
    let least = least.and_then(|least| least.get(&role.name));
    least.map_or(replicas, |least| replicas.min(i64::from(*least)))
}

/// How many pods an instance has.
fn size(role: &Role) -> i64 {
    1 + i64::from(role.worker_replicas)
}

/// What the pods that must be there ask for together. Containers that run first do not count.
fn resources(serving: &ModelServing) -> Map<String, Value> {
    let mut total: BTreeMap<&str, Quantity> = BTreeMap::new();
    for role in &serving.spec.template.roles {
        let count = at_least(serving, role);
        add(&mut total, &role.entry_template, count);
        if let Some(template) = role.worker_template.as_ref().filter(|_| role.worker_replicas > 0) {
            add(&mut total, template, count * i64::from(role.worker_replicas));
        }
    }
    total.iter().map(|(name, amount)| ((*name).to_owned(), amount.to_string().into())).collect()
}

fn add<'a>(total: &mut BTreeMap<&'a str, Quantity>, template: &'a PodTemplate, count: i64) {
    let containers = template.spec.get("containers").and_then(Value::as_array);
    for container in containers.into_iter().flatten() {
        let requests = container.pointer("/resources/requests").and_then(Value::as_object);
        for (name, amount) in requests.into_iter().flatten() {
            let Some(amount) = Quantity::of_json(amount).map(|amount| amount.times(count)) else {
                continue;
            };
            let sum = total.get(name.as_str()).map_or(amount, |sum| *sum + amount);
            total.insert(name, sum);
        }
    }
}
