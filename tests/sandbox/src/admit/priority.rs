//! Priority: turns the class that a pod names into a number.

use muster_objects::meta;
use muster_objects::status::Status;
use serde_json::{Value, json};

use super::{Attempt, Operation, Plugin};
use crate::store::Store;

pub(super) struct Priority;

const CLASSES: &str = "priorityclasses.scheduling.k8s.io";
/// Classes that every server has, even before they are in the store.
const BUILT_IN: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

impl Plugin for Priority {
    fn admit(&self, attempt: &mut Attempt<'_>, store: &Store) -> Result<(), Status> {
        if !attempt.is("", "pods") {
            return Ok(());
        }
        let Some(mut pod) = attempt.object.take() else { return Ok(()) };
        let done = match attempt.operation {
            Operation::Create => give_priority(attempt, &mut pod, store),
            Operation::Update => {
                keep(&mut pod, attempt.old);
                Ok(())
            }
            _ => Ok(()),
        };
        attempt.object = Some(pod);
        done
    }

    fn validate(&self, attempt: &Attempt<'_>, store: &Store) -> Result<(), Status> {
        let writes = matches!(attempt.operation, Operation::Create | Operation::Update);
        if !attempt.is("scheduling.k8s.io", "priorityclasses") || !writes {
            return Ok(());
        }
        let Some(class) = &attempt.object else { return Ok(()) };
        let other = global_default(store).filter(|_| class["globalDefault"] == true);
        let Some(other) = other else { return Ok(()) };
        let other = meta::name(&other);
        if attempt.operation == Operation::Update && other == meta::name(class) {
            return Ok(());
        }
        Err(attempt.forbid(&format!(
            "PriorityClass {other} is already marked as default. Only one default can exist"
        )))
    }
}

/// An update that leaves the numbers out keeps them.
fn keep(pod: &mut Value, old: Option<&Value>) {
    for field in ["priority", "preemptionPolicy"] {
        let before = old.map(|old| &old["spec"][field]).filter(|value| !value.is_null());
        if let (true, Some(before)) = (pod["spec"][field].is_null(), before) {
            pod["spec"][field] = before.clone();
        }
    }
}

fn give_priority(attempt: &Attempt<'_>, pod: &mut Value, store: &Store) -> Result<(), Status> {
    let named = pod["spec"]["priorityClassName"].as_str().unwrap_or_default().to_owned();
    let class = if named.is_empty() {
        global_default(store)
    } else {
        let stored = store.get(CLASSES, "", &named).map(|class| class.value.clone());
        let class = stored.or_else(|| built_in(&named));
        Some(class.ok_or_else(|| {
            attempt.forbid_object(pod, &format!("no PriorityClass with name {named} was found"))
        })?)
    };
    let (priority, policy) = match &class {
        Some(class) => (
            class["value"].as_i64().unwrap_or_default(),
            class["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority"),
        ),
        None => (0, "PreemptLowerPriority"),
    };
    if let Some(class) = class.as_ref().filter(|_| named.is_empty()) {
        pod["spec"]["priorityClassName"] = json!(meta::name(class));
    }
    let given = &pod["spec"]["priority"];
    if given.as_i64().is_some_and(|given| given != priority) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        );
        return Err(attempt.forbid_object(pod, &why));
    }
    let given = pod["spec"]["preemptionPolicy"].as_str();
    if let Some(given) = given.filter(|given| *given != policy) {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(attempt.forbid_object(pod, &why));
    }
    let spec = meta::field(pod, "spec");
    spec.insert("priority".into(), json!(priority));
    spec.insert("preemptionPolicy".into(), json!(policy));
    Ok(())
}

fn built_in(name: &str) -> Option<Value> {
    let (name, value) = BUILT_IN.into_iter().find(|(known, _)| *known == name)?;
    Some(json!({"metadata": {"name": name}, "value": value}))
}

/// The class for pods that name none; the lowest, if several say so.
fn global_default(store: &Store) -> Option<Value> {
    let classes = store.list(CLASSES, None);
    let defaults = classes.iter().filter(|class| class.value["globalDefault"] == true);
    let lowest = defaults.min_by_key(|class| class.value["value"].as_i64());
    lowest.map(|class| class.value.clone())
}
