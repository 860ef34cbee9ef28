//! Containers that choose devices by themselves. NVIDIA's runtime gives a container whatever `NVIDIA_VISIBLE_DEVICES` says, also
//! devices of others: a container that asks for devices may not set it, one that asks for none gets `void`.

use serde_json::{Map, Value, json};

use super::{Refused, device, pod};
use crate::object::Object;

const VARIABLE: &str = "NVIDIA_VISIBLE_DEVICES";
/// Values that give nothing away.
const HARMLESS: [&str; 2] = ["void", "none"];
/// What a container gets that asks for no device.
const NOTHING: &str = "void";

/// The pod with containers that see no device but their own.
///
/// # Errors
/// Why it is refused: a container that asks for devices names others.
pub fn hide(pod: &Object) -> Result<Value, Refused> {
    // The container that shares a device gets the variable from the coordinator.
    let shares = device::is_shared(pod) && containers(pod.raw(), "containers").next().is_some();
    let exempt = if shares { Some(pod::container(pod)?) } else { None };
    let mut raw = pod.raw().clone();
    for list in ["initContainers", "containers"] {
        let at = format!("/spec/{list}");
        let all = raw.pointer_mut(&at).and_then(Value::as_array_mut);
        for (index, container) in all.into_iter().flatten().enumerate() {
            if exempt.as_ref().is_some_and(|place| place.list == list && place.index == index) {
                continue;
            }
            let Some(container) = container.as_object_mut() else { continue };
            if asks_for_devices(container) {
                check(pod, list, index, container)?;
            } else {
                set_nothing(container);
            }
        }
    }
    Ok(raw)
}

fn containers<'a>(raw: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    let all = raw.pointer(&format!("/spec/{list}")).and_then(Value::as_array);
    all.into_iter().flatten()
}

fn asks_for_devices(container: &Map<String, Value>) -> bool {
    let resources = container.get("resources");
    let amounts = ["requests", "limits"].into_iter().filter_map(|list| {
        resources.and_then(|resources| resources.get(list)).and_then(Value::as_object)
    });
    let is_device = |name: &str| name == device::DEVICE || name.starts_with("nvidia.com/mig-");
    let is_some = |amount: &Value| *amount != json!(0) && *amount != json!("0");
    amounts.flatten().any(|(name, amount)| is_device(name) && is_some(amount))
}

fn is_variable(variable: &Value) -> bool {
    variable.get("name").and_then(Value::as_str) == Some(VARIABLE)
}

fn check(
    pod: &Object,
    list: &str,
    index: usize,
    container: &Map<String, Value>,
) -> Result<(), Refused> {
    let variables = container.get("env").and_then(Value::as_array).into_iter().flatten();
    for variable in variables.filter(|variable| is_variable(variable)) {
        let value = variable.get("value").and_then(Value::as_str).unwrap_or_default();
        let refers =
            value.is_empty() && variable.get("valueFrom").is_some_and(|from| !from.is_null());
        if HARMLESS.contains(&value) || value.is_empty() && !refers {
            continue;
        }
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
        let what = if refers { "a reference".to_owned() } else { format!("{value:?}") };
        let detail = format!(
            "container {name} sets {VARIABLE} to {what}, which would give it devices beside those of the device plugin"
        );
        let field = format!("spec.{list}[{index}].env");
        let remedy = "leave it out, or set it to void or none";
        return Err(Refused::new("visible-devices", pod, field, detail, remedy));
    }
    Ok(())
}

fn set_nothing(container: &mut Map<String, Value>) {
    let variable = json!({"name": VARIABLE, "value": NOTHING});
    let harmless = |known: &Value| {
        let value = known.get("value").and_then(Value::as_str);
        value.is_some_and(|value| HARMLESS.contains(&value))
    };
    match container.entry("env").or_insert_with(|| json!([])) {
        Value::Array(env) => {
            let mut found = false;
            for known in env.iter_mut().filter(|known| is_variable(known)) {
                found = true;
                if !harmless(known) {
                    *known = variable.clone();
                }
            }
            if !found {
                env.push(variable);
            }
        }
        other => *other = json!([variable]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotations: &Value, containers: &Value) -> Object {
        Object::new(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "ns", "annotations": annotations},
            "spec": {"schedulerName": "muster-scheduler", "containers": containers,
                "initContainers": [{"name": "first"}]}}))
    }

    fn main(env: &Value, devices: u32) -> Value {
        let amounts = if devices > 0 { json!({"nvidia.com/gpu": devices}) } else { json!({}) };
        json!([{"name": "main", "env": env, "resources": {"limits": amounts}}])
    }

    #[test]
    fn a_container_with_devices_may_not_name_others_and_one_without_sees_none() {
        let none = json!({});
        let set = |value: &str| json!([{"name": VARIABLE, "value": value}]);
        for odd in
            [set("all"), set("0,1"), json!([{"name": VARIABLE, "valueFrom": {"fieldRef": {}}}])]
        {
            let refused = hide(&pod(&none, &main(&odd, 1))).unwrap_err().to_string();
            for word in ["Pod ns/p", "spec.containers[0].env", "main", "void or none"] {
                assert!(refused.contains(word), "{refused}");
            }
            let hidden = hide(&pod(&none, &main(&odd, 0))).unwrap();
            assert_eq!(hidden["spec"]["containers"][0]["env"], set("void"), "{odd}");
        }
        for fine in [set("void"), set("none"), json!([])] {
            let same = hide(&pod(&none, &main(&fine, 1))).unwrap();
            assert_eq!(same["spec"]["containers"][0]["env"], fine);
        }
        let hidden = hide(&pod(&none, &main(&set("none"), 0))).unwrap();
        assert_eq!(hidden["spec"]["containers"][0]["env"], set("none"));
        assert_eq!(hidden["spec"]["initContainers"][0]["env"], set("void"));
    }

    #[test]
    fn the_container_that_shares_a_device_keeps_what_the_coordinator_gives_it() {
        let given = json!([{"name": VARIABLE, "valueFrom": {"configMapKeyRef": {"key": VARIABLE, "name": "m"}}}]);
        let mut containers = main(&given, 0);
        containers.as_array_mut().unwrap().push(json!({"name": "side"}));
        let hidden = hide(&pod(&json!({"gpu-fraction": "0.5"}), &containers)).unwrap();
        assert_eq!(hidden["spec"]["containers"][0]["env"], given);
        assert_eq!(hidden["spec"]["containers"][1]["env"][0]["value"], "void");
        assert_eq!(hide(&Object::new(hidden.clone())).unwrap(), hidden, "twice is once");
    }
}
