//! What says nothing is left out of templates and patches, as it is where they pass through typed structs: empty lists and
//! texts, flags that are off. So a patch with an empty value changes nothing, and a template is written in one way.

use serde_json::{Map, Value, json};

/// Maps whose values are texts, also empty ones.
const TEXTS: [&str; 5] = ["labels", "annotations", "nodeSelector", "matchLabels", "matchLabelKeys"];
/// Maps that may as well not be there.
const MAPS: [&str; 10] = [
    "labels",
    "annotations",
    "nodeSelector",
    "matchLabels",
    "limits",
    "requests",
    "overhead",
    "capacity",
    "volumeAttributes",
    "options",
];
/// Flags that are off unless somebody says otherwise.
const FLAGS: [&str; 7] =
    ["hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty", "readOnly"];
/// Numbers that are nothing unless somebody says otherwise.
const NUMBERS: [&str; 9] = [
    "hostPort",
    "maxRestarts",
    "jobIndex",
    "podIndex",
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
];
/// Texts of which the empty one is another than none.
const SAYING: [&str; 7] = [
    "service",
    "storageClassName",
    "runtimeClassName",
    "volumeAttributesClassName",
    "managedBy",
    "localhostProfile",
    "hostnameOverride",
];
/// Volumes of which flags that are off and empty texts are said.
const EXACT: [&str; 2] = ["azureDisk", "csi"];
/// Items whose `value` may be empty.
const VALUES: [&str; 3] = ["httpHeaders", "options", "sysctls"];
/// What has no name of its own, but names another.
const REFERENCES: [&str; 8] = [
    "configMap",
    "secret",
    "configMapKeyRef",
    "secretKeyRef",
    "configMapRef",
    "secretRef",
    "nodePublishSecretRef",
    "imagePullSecrets",
];

/// Leaves out what says nothing.
pub fn tidy(value: &mut Value) {
    inside("", value);
}

/// `key` is where the value stands.
fn inside(key: &str, value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| inside(key, item)),
        Value::Object(fields) if !TEXTS.contains(&key) => {
            fields.iter_mut().for_each(|(name, field)| inside(name, field));
            fields.retain(|name, field| says_something(key, name, field));
            match key {
                // A claim is written with its spec and its status, also if they are nothing yet.
                "templates" => {
                    fields.entry("spec").or_insert_with(|| json!({}));
                    fields.entry("status").or_insert_with(|| json!({}));
                }
                // A share of a resource is written with its divisor.
                "resourceFieldRef" => {
                    fields.entry("divisor").or_insert_with(|| json!("0"));
                }
                _ => {}
            }
        }
        _ => {}
    }
}

fn says_something(parent: &str, name: &str, value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty() || !MAPS.contains(&name),
        Value::Bool(false) => !FLAGS.contains(&name) || EXACT.contains(&parent),
        Value::String(text) if text.is_empty() && name == "name" => !REFERENCES.contains(&parent),
        Value::String(text) if text.is_empty() => match name {
            "value" => VALUES.contains(&parent),
            "fsType" => EXACT.contains(&parent),
            _ => SAYING.contains(&name),
        },
        Value::String(_) => true,
        Value::Number(number) => !NUMBERS.contains(&name) || number.as_i64() != Some(0),
        Value::Bool(true) => true,
    }
}

/// The same for an object.
pub fn tidied(fields: &Map<String, Value>) -> Map<String, Value> {
    let mut value = Value::Object(fields.clone());
    tidy(&mut value);
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_though_it_is_empty_or_off_stays() {
        let pod = json!({
            "dnsConfig": {"options": [{"name": "ndots", "value": ""}]},
            "securityContext": {"sysctls": [{"name": "a", "value": ""}],
                "seccompProfile": {"type": "Localhost", "localhostProfile": ""}},
            "containers": [{"name": "a", "livenessProbe":
                {"httpGet": {"port": 1, "httpHeaders": [{"name": "X", "value": ""}]}}}],
            "volumes": [{"name": "v", "csi": {"driver": "d", "readOnly": false, "fsType": ""}}],
        });
        let mut tidy_pod = pod.clone();
        tidy(&mut tidy_pod);
        assert_eq!(tidy_pod, pod);
        let mut volume =
            json!({"csi": {"driver": "d", "volumeAttributes": {}}, "nfs": {"readOnly": false}});
        tidy(&mut volume);
        assert_eq!(volume, json!({"csi": {"driver": "d"}, "nfs": {}}));
    }

    #[test]
    fn what_says_nothing_is_left_out() {
        let mut pod = json!({
            "metadata": {"labels": {"a": ""}, "annotations": {}},
            "spec": {
                "hostNetwork": false, "tolerations": [], "securityContext": {},
                "containers": [{"name": "a", "args": [], "command": ["", "x"],
                    "env": [{"name": "A", "value": ""}],
                    "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": false}]}],
                "volumes": [{"name": "v", "emptyDir": {"medium": ""}}, {"name": "c", "configMap": {"name": ""}}],
            },
        });
        tidy(&mut pod);
        assert_eq!(
            pod,
            json!({
                "metadata": {"labels": {"a": ""}},
                "spec": {
                    "securityContext": {},
                    "containers": [{"name": "a", "command": ["", "x"], "env": [{"name": "A"}],
                        "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
                    "volumes": [{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {}}],
                },
            })
        );
    }
}
