//! Lists of a container or a pod: the first item of the same key is replaced as a whole, else the new one comes last.

use muster_api::train_job::Env;
use serde_json::{Map, Value, json};

/// The annotation that tells a pod its number.
pub const INDEX: &str = "metadata.annotations['batch.kubernetes.io/job-completion-index']";

/// An environment variable with a value.
pub fn variable(name: &str, value: impl Into<String>) -> Value {
    json!({"name": name, "value": value.into()})
}

/// A variable with the number of the pod.
pub fn index_variable(name: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": INDEX}}})
}

/// Puts a variable into a container, by name.
pub fn env(container: &mut Map<String, Value>, variable: Value) {
    upsert(list(container, "env"), variable, same("name"));
}

/// Puts the variables of a job into a container.
pub fn job_env(container: &mut Map<String, Value>, variables: Option<&Vec<Env>>) {
    for variable in variables.into_iter().flatten() {
        env(container, written(variable));
    }
}

/// Puts a mount into a container, by path.
pub fn mount(container: &mut Map<String, Value>, mount: Value) {
    upsert(list(container, "volumeMounts"), mount, same("mountPath"));
}

/// Puts mounts in once more: of two at one path the later takes the place of the earlier.
pub(crate) fn settle(mounts: &mut Vec<Value>) {
    for mount in mounts.clone() {
        upsert(mounts, mount, same("mountPath"));
    }
}

/// Puts a volume into a pod's spec, by name.
pub fn volume(spec: &mut Map<String, Value>, volume: Value) {
    upsert(list(spec, "volumes"), volume, same("name"));
}

/// Puts a port into a container, by number or by name; two without a name have the same.
pub fn port(ports: &mut Vec<Value>, port: Value) {
    upsert(ports, port, |a, b| {
        let (number, name) = ("containerPort", "name");
        a.get(number) == b.get(number) || a.get(name) == b.get(name)
    });
}

/// A variable of a job as it is written into a container: of several sources only the known ones are kept.
pub fn written(variable: &Env) -> Value {
    let name = &variable.name;
    let Some(from) = &variable.value_from else {
        return json!({"name": name, "value": variable.value.as_deref().unwrap_or_default()});
    };
    let mut kept = Map::new();
    if let Some(field) = from.get("fieldRef") {
        kept.insert("fieldRef".to_owned(), json!({"fieldPath": field["fieldPath"]}));
    }
    if let Some(resource) = from.get("resourceFieldRef") {
        let text = |key: &str| resource.get(key).cloned().unwrap_or_else(|| json!(""));
        let mut divisor = resource.get("divisor").cloned().unwrap_or_else(|| json!("0"));
        crate::resources::canonical(&mut divisor);
        let reference = json!({"containerName": text("containerName"), "resource": text("resource"), "divisor": divisor});
        kept.insert("resourceFieldRef".to_owned(), reference);
    }
    for key in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(Value::Object(reference)) = from.get(key) {
            let mut reference = reference.clone();
            reference.retain(|key, _| matches!(key.as_str(), "key" | "name" | "optional"));
            kept.insert(key.to_owned(), Value::Object(reference));
        }
    }
    json!({"name": name, "valueFrom": kept})
}

/// A list of an object, made where there is none.
pub fn list<'a>(object: &'a mut Map<String, Value>, key: &str) -> &'a mut Vec<Value> {
    let value = object.entry(key).or_insert_with(|| Value::Array(Vec::new()));
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    let Value::Array(items) = value else { unreachable!("it has just been made a list") };
    items
}

fn same(key: &'static str) -> impl Fn(&Value, &Value) -> bool {
    move |a, b| a.get(key) == b.get(key)
}

fn upsert(items: &mut Vec<Value>, item: Value, same: impl Fn(&Value, &Value) -> bool) {
    match items.iter_mut().find(|there| same(there, &item)) {
        Some(there) => *there = item,
        None => items.push(item),
    }
}
