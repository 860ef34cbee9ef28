//! ServiceAccount: every pod runs as one, and finds its token mounted.

use std::sync::Arc;

use muster_objects::meta;
use muster_objects::status::Status;
use rand::Rng as _;
use serde_json::{Value, json};

use super::{Attempt, Operation, Plugin};
use crate::store::{Object, Store};

pub(super) struct ServiceAccount;

const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const VOLUME: &str = "kube-api-access-";
const MIRROR: &str = "kubernetes.io/config.mirror";

impl Plugin for ServiceAccount {
    fn admit(&self, attempt: &mut Attempt<'_>, store: &Store) -> Result<(), Status> {
        if !concerns(attempt) {
            return Ok(());
        }
        let Some(mut pod) = attempt.object.take() else { return Ok(()) };
        let done = if meta::annotation(&pod, MIRROR).is_some() {
            Ok(())
        } else {
            give_account(attempt, &mut pod, store)
        };
        attempt.object = Some(pod);
        done?;
        self.validate(attempt, store)
    }

    fn validate(&self, attempt: &Attempt<'_>, store: &Store) -> Result<(), Status> {
        let Some(pod) = attempt.object.as_ref().filter(|_| concerns(attempt)) else {
            return Ok(());
        };
        let name = account_name(pod);
        if meta::annotation(pod, MIRROR).is_some() {
            if !name.is_empty() {
                return Err(attempt.forbid("a mirror pod may not reference service accounts"));
            }
            return Ok(());
        }
        if name.is_empty() {
            let (namespace, pod) = (attempt.namespace, meta::name(pod));
            return Err(
                attempt.forbid(&format!("no service account specified for pod {namespace}/{pod}"))
            );
        }
        account(attempt, pod, name, store).map(drop)
    }
}

fn concerns(attempt: &Attempt<'_>) -> bool {
    attempt.is("", "pods") && attempt.operation == Operation::Create
}

fn account_name(pod: &Value) -> &str {
    pod["spec"]["serviceAccountName"].as_str().unwrap_or_default()
}

fn account(
    attempt: &Attempt<'_>,
    pod: &Value,
    name: &str,
    store: &Store,
) -> Result<Arc<Object>, Status> {
    let namespace = attempt.namespace;
    store.get("serviceaccounts", namespace, name).ok_or_else(|| {
        let why = format!(
            "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
        );
        attempt.forbid_object(pod, &why)
    })
}

fn give_account(attempt: &Attempt<'_>, pod: &mut Value, store: &Store) -> Result<(), Status> {
    if account_name(pod).is_empty() {
        meta::field(pod, "spec").insert("serviceAccountName".into(), json!("default"));
    }
    let name = account_name(pod).to_owned();
    // The old name of the field always says the same.
    meta::field(pod, "spec").insert("serviceAccount".into(), json!(name));
    let account = account(attempt, pod, &name, store)?;
    let of = |value: &Value| value["automountServiceAccountToken"].as_bool();
    if of(&pod["spec"]).or(of(&account.value)).unwrap_or(true) {
        mount_token(pod);
    }
    let own = pod["spec"]["imagePullSecrets"].as_array().is_some_and(|s| !s.is_empty());
    if let (false, Some(secrets)) = (own, account.value["imagePullSecrets"].as_array()) {
        let names: Vec<Value> = secrets.iter().map(|s| json!({"name": s["name"]})).collect();
        if !names.is_empty() {
            pod["spec"]["imagePullSecrets"] = json!(names);
        }
    }
    Ok(())
}

fn mount_token(pod: &mut Value) {
    let present = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let present = present
        .filter_map(|volume| volume["name"].as_str())
        .find(|name| name.starts_with(VOLUME))
        .map(str::to_owned);
    let name = present.clone().unwrap_or_else(|| format!("{VOLUME}{}", suffix()));
    let mut needed = false;
    for list in ["initContainers", "containers"] {
        let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mounts = meta::as_map(container).entry("volumeMounts").or_insert(Value::Null);
            if mounts.is_null() {
                *mounts = json!([]);
            }
            let Some(mounts) = mounts.as_array_mut() else { continue };
            if mounts.iter().all(|mount| mount["mountPath"] != MOUNT_PATH) {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH}));
                needed = true;
            }
        }
    }
    if present.is_none() && needed {
        let volumes = meta::field(pod, "spec").entry("volumes").or_insert(Value::Null);
        if volumes.is_null() {
            *volumes = json!([]);
        }
        if let Some(volumes) = volumes.as_array_mut() {
            volumes.push(volume(&name));
        }
    }
}

fn volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{
            "path": "namespace",
            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
        }]}},
    ]}})
}

/// Five characters that cannot form words.
fn suffix() -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut random = rand::rng();
    (0..5).map(|_| char::from(LETTERS[random.random_range(0..LETTERS.len())])).collect()
}
