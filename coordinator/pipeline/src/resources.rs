//! What nodes need: how many GPUs and CPUs that is, and amounts in their one form.

use std::collections::BTreeMap;

use muster_api::TrainJob;
use muster_kube::Quantity;
use muster_kube::quantity::QuantityTexts;
use serde_json::{Map, Value};

/// Amounts by resource.
pub type Resources = BTreeMap<String, Quantity>;

/// What a node has for its processes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeResources {
    /// At least.
    pub requests: Resources,
    /// At most.
    pub limits: Resources,
}

/// Keys whose values are amounts by resource.
const LISTS: [&str; 4] = ["limits", "requests", "overhead", "capacity"];
/// Keys whose value is one amount.
const SINGLE: [&str; 2] = ["sizeLimit", "divisor"];

/// Writes all amounts in their one form: `1000m` is `1`, `0.5` is `500m`.
pub fn normalize(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(normalize),
        Value::Object(fields) => {
            for (key, inner) in fields {
                if SINGLE.contains(&key.as_str()) {
                    canonical(inner);
                } else if let (true, Value::Object(amounts)) =
                    (LISTS.contains(&key.as_str()), &mut *inner)
                {
                    amounts.values_mut().for_each(canonical);
                } else {
                    normalize(inner);
                }
            }
        }
        _ => {}
    }
}

/// One amount in its one form; what is none stays as it is.
pub fn canonical(value: &mut Value) {
    if let Some(amount) = Quantity::of_json(value) {
        *value = Value::String(amount.to_string());
    }
}

/// Amounts of an object such as `limits`.
pub fn amounts(of: Option<&Value>) -> Resources {
    let fields = of.and_then(Value::as_object);
    let read = |(name, value): (&String, &Value)| Some((name.clone(), Quantity::of_json(value)?));
    fields.into_iter().flatten().filter_map(read).collect()
}

/// Amounts as they are written.
pub fn written(amounts: &Resources) -> Value {
    let write = |(name, amount): (&String, &Quantity)| (name.clone(), amount.to_string().into());
    Value::Object(amounts.iter().map(write).collect())
}

/// What the job says a node needs; none if it says nothing.
pub fn of_job(job: &TrainJob) -> Option<NodeResources> {
    let resources = job.spec.trainer.as_ref()?.resources_per_node.as_ref()?;
    let read = |amounts: &Option<QuantityTexts>| -> Resources {
        let amounts = amounts.iter().flatten();
        amounts.filter_map(|(name, amount)| Some((name.clone(), amount.0.parse().ok()?))).collect()
    };
    Some(NodeResources { requests: read(&resources.requests), limits: read(&resources.limits) })
}

/// Lays what the job says over a container's `resources`, key by key. Claims are lost: they cannot be merged.
pub fn overlay(container: &mut Map<String, Value>, job: &NodeResources) {
    let old = container.remove("resources").unwrap_or_default();
    let mut merged = Map::new();
    for (key, own) in [("limits", &job.limits), ("requests", &job.requests)] {
        let mut amounts = match old.get(key) {
            Some(Value::Object(amounts)) => amounts.clone(),
            _ => Map::new(),
        };
        if let Value::Object(own) = written(own) {
            amounts.extend(own);
        }
        if !amounts.is_empty() {
            merged.insert(key.to_owned(), Value::Object(amounts));
        }
    }
    container.insert("resources".to_owned(), Value::Object(merged));
}

// === impl NodeResources ===

impl NodeResources {
    /// What a container has.
    pub fn of_container(container: &Value) -> Self {
        let resources = container.get("resources");
        let part = |key: &str| amounts(resources.and_then(|resources| resources.get(key)));
        Self { requests: part("requests"), limits: part("limits") }
    }

    /// How many GPUs: of the first resource that is called so, requests before limits.
    pub fn gpus(&self) -> i64 {
        let count = |resources: &Resources| {
            let gpu = |name: &str| name.to_lowercase().contains("gpu");
            resources.iter().find(|(name, _)| gpu(name)).map_or(0, |(_, amount)| amount.units())
        };
        either(count(&self.requests), || count(&self.limits))
    }

    /// How many CPUs, rounded up, requests before limits.
    pub fn cpus(&self) -> i64 {
        let count = |resources: &Resources| resources.get("cpu").map_or(0, |amount| amount.units());
        either(count(&self.requests), || count(&self.limits))
    }
}

fn either(first: i64, second: impl FnOnce() -> i64) -> i64 {
    if first != 0 { first } else { second() }
}
