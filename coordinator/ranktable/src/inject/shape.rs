//! What is put into a pod. Delivery by ConfigMap has the seed's shape, word for word.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::error::shortened;
use super::{Delivery, Injection};
use crate::names::{VOLUME, WAITER, record};

/// The user that waits. It reads one file.
const NOBODY: u32 = 65532;

/// The volume that holds the table.
pub(super) fn volume(delivery: Delivery, group: &str) -> Json {
    match delivery {
        Delivery::Agent => json!({"name": VOLUME, "emptyDir": {}}),
        Delivery::ConfigMap => json!({"name": VOLUME, "configMap": {"name": record(group)}}),
    }
}

/// Whether a table can be delivered into this volume.
pub(super) fn fits(volume: &Json, delivery: Delivery, group: &str) -> bool {
    match (delivery, sources(volume).as_slice()) {
        // The API server makes a volume without a source an emptyDir.
        (Delivery::Agent, [] | ["emptyDir"]) => true,
        (Delivery::ConfigMap, ["configMap"]) => volume["configMap"]["name"] == record(group),
        _ => false,
    }
}

/// What a volume should be, for people.
pub(super) fn wanted(delivery: Delivery, group: &str) -> String {
    match delivery {
        Delivery::Agent => "emptyDir".to_owned(),
        Delivery::ConfigMap => format!("configMap {}", record(group)),
    }
}

/// What a volume is, for people.
pub(super) fn describe(volume: &Json) -> String {
    match sources(volume).as_slice() {
        [] => "emptyDir".to_owned(),
        ["configMap"] => {
            let name = volume["configMap"]["name"].as_str().unwrap_or_default();
            format!("configMap {}", shortened(name))
        }
        several => shortened(&several.join(" and ")),
    }
}

/// A volume is what its keys say, beside its name.
fn sources(volume: &Json) -> Vec<&str> {
    let fields = volume.as_object().into_iter().flatten();
    let sources = fields.filter(|(key, value)| *key != "name" && !value.is_null());
    sources.map(|(key, _)| key.as_str()).collect()
}

/// The mount, in each container.
pub(super) fn mount(path: &str) -> Json {
    json!({"name": VOLUME, "mountPath": path, "readOnly": true})
}

/// The init container that waits for the table.
pub(super) fn waiter(settings: &Injection, delivery: Delivery, path: &str, file: &str) -> Json {
    let mounts = json!([mount(path)]);
    let file = format!("{}/{file}", path.trim_end_matches('/'));
    match delivery {
        Delivery::ConfigMap => json!({
            "name": WAITER,
            "image": settings.busybox_image,
            "command": ["sh", "-c", script(&file)],
            "volumeMounts": mounts,
        }),
        Delivery::Agent => {
            let mut command = json!(["muster-agent", "wait", "--file", file]);
            if let (Some(timeout), Some(words)) = (settings.wait_timeout, command.as_array_mut()) {
                words.extend([json!("--timeout"), json!(time(timeout))]);
            }
            // Requests are limits, so that a pod of guaranteed quality stays one.
            let resources = json!({"cpu": "10m", "memory": "32Mi"});
            json!({
                "name": WAITER,
                "image": settings.agent_image,
                "command": command,
                "resources": {"requests": resources, "limits": resources},
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": true,
                    "runAsNonRoot": true,
                    "runAsUser": NOBODY,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": mounts,
            })
        }
    }
}

/// The seed's script. The path has no character that means something to a shell: `template` sees to that.
fn script(file: &str) -> String {
    format!(
        r#"echo "Waiting for ranktable to be ready..."
RANKTABLE_FILE="{file}"
while [ ! -f "$RANKTABLE_FILE" ] || [ ! -s "$RANKTABLE_FILE" ]; do
    echo "Ranktable not ready, waiting..."
    sleep 2
done
echo "Ranktable is ready!"
cat "$RANKTABLE_FILE"
"#
    )
}

/// As `muster-agent` reads it.
fn time(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{}s", time.as_secs()),
        millis => format!("{}s{millis}ms", time.as_secs()),
    }
}
