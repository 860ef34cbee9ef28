//! Devices that pods share, as they are written: reservation pods, what they hold, and what pods that share it are told.

use std::collections::BTreeMap;
use std::fmt::Display;

use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference, Pod};
use kube::api::{DeleteParams, Preconditions};
use muster_scheduler::input::Toleration;
use muster_scheduler_state::object::shown;
use muster_scheduler_state::reservation::share::Share;
use muster_scheduler_state::reservation::{APP, Annotate, DEVICE, GROUP, Make, Release};
use muster_scheduler_state::{Bind, Outcome};
use serde_json::{Map, Value, json};

use super::bind::outcome;
use muster_hub::Hub;
use muster_runtime::events::Events;
use muster_runtime::writer::{WriteError, Writer};

/// Event of a pod: it goes because its device is not held any more.
pub const DEVICE_NOT_HELD: &str = "DeviceNotHeld";

/// What reservation pods run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Their image.
    pub image: String,
    /// Its command; the image's own if there is none.
    pub command: Vec<String>,
}

// === impl Reservation ===

impl Default for Reservation {
    fn default() -> Self {
        let command = ["sleep", "infinity"].map(ToOwned::to_owned);
        Self { image: "busybox:latest".to_owned(), command: command.to_vec() }
    }
}

impl Reservation {
    /// A reservation pod. It asks for one device of the node and does nothing; anybody may run it.
    fn pod(&self, make: &Make, app: &str) -> Value {
        let mut requests = json!({"cpu": "1m", "memory": "10Mi"});
        requests[&make.resource] = "1".into();
        let mut container = json!({
            "name": "resource-reservation",
            "image": self.image,
            "resources": {"requests": requests, "limits": {&make.resource: "1"}},
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        });
        if !self.command.is_empty() {
            container["command"] = json!(self.command);
        }
        let tolerations: Vec<Value> = make.tolerations.iter().map(toleration).collect();
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "namespace": make.pod.0, "name": make.pod.1,
                "labels": {APP: app, GROUP: make.spot.group},
                "annotations": {"karpenter.sh/do-not-disrupt": "true"},
            },
            "spec": {
                "nodeName": make.spot.node,
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "terminationGracePeriodSeconds": 1,
                "securityContext": {"runAsNonRoot": true, "runAsUser": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"}},
                "tolerations": tolerations,
                "containers": [container],
            },
        })
    }
}

fn toleration(one: &Toleration) -> Value {
    let mut toleration = json!({"operator": format!("{:?}", one.operator)});
    if !one.key.is_empty() {
        toleration["key"] = one.key.as_str().into();
    }
    if !one.value.is_empty() {
        toleration["value"] = one.value.as_str().into();
    }
    if let Some(effect) = one.effect {
        toleration["effect"] = format!("{effect:?}").into();
    }
    toleration
}

/// Makes a reservation pod.
pub async fn make(writer: &Writer, make: &Make, what: &Reservation, app: &str) -> Outcome {
    let pod: Pod = match serde_json::from_value(what.pod(make, app)) {
        Ok(pod) => pod,
        Err(error) => return Outcome::Failed(format!("reservation pod: {error}")),
    };
    let api = writer.namespaced::<Pod>(&make.pod.0);
    match writer.create(&api, &pod).await {
        // One of this name is there.
        Err(error @ WriteError::Exists { .. }) => Outcome::Lost(error.to_string()),
        Err(WriteError::Gone { .. }) => Outcome::Failed(format!(
            "there is no namespace {} for reservation pods: apply deploy/coordinator/scheduler-defaults.yaml",
            make.pod.0
        )),
        other => match outcome(other.map(drop)) {
            Outcome::Lost(why) => Outcome::Failed(why),
            known => known,
        },
    }
}

/// Writes down which device a reservation pod has.
pub async fn mark(writer: &Writer, mark: &Annotate) -> Outcome {
    let change = json!({"metadata": {"uid": mark.uid, "annotations": {DEVICE: mark.device}}});
    let api = writer.namespaced::<Pod>(&mark.pod.0);
    outcome(writer.merge_metadata(&api, &mark.pod.1, &change).await)
}

/// Lets a pod go, if it is still this one.
pub async fn release(writer: &Writer, release: &Release) -> Outcome {
    let preconditions =
        Preconditions { uid: Some(release.uid.clone()), ..Preconditions::default() };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    let api = writer.namespaced::<Pod>(&release.pod.0);
    outcome(writer.delete(&api, &release.pod.1, &params).await)
}

/// Takes the labels of shared devices off a pod that has no node. What has changed in the meantime stays as it is.
pub async fn clear(writer: &Writer, order: &Release) -> Outcome {
    let api = writer.namespaced::<Pod>(&order.pod.0);
    let pod = match writer.read(&api, &order.pod.1).await {
        Ok(Some(pod)) => pod,
        Ok(None) => return Outcome::Lost("the pod is gone".to_owned()),
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let has_node = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    if has_node || pod.metadata.uid.as_ref() != Some(&order.uid) {
        return Outcome::Lost("the pod has a node, or is another".to_owned());
    }
    let labels = pod.metadata.labels.iter().flatten().map(|(label, _)| label);
    let ours = |label: &&String| {
        label.strip_prefix(GROUP).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let gone: Map<String, Value> =
        labels.filter(ours).map(|label| (label.clone(), Value::Null)).collect();
    let change = json!({"metadata": {"uid": order.uid, "labels": gone,
        "resourceVersion": pod.metadata.resource_version}});
    outcome(writer.merge_metadata(&api, &order.pod.1, &change).await)
}

/// Lets a pod go whose device is not held any more, and says so on it.
pub async fn lose(writer: &Writer, events: &Events, lost: &Release) -> Outcome {
    let outcome = release(writer, lost).await;
    if outcome == Outcome::Done {
        let message = "it is deleted: the reservation pod of the device that it has a part of is gone, and others may be given the device";
        events.warning(&reference(lost), DEVICE_NOT_HELD, message.to_owned()).await;
    }
    outcome
}

fn reference(pod: &Release) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.pod.0.to_string()),
        name: Some(pod.pod.1.to_string()),
        uid: Some(pod.uid.clone()),
        ..ObjectReference::default()
    }
}

/// Gives a pod what it needs to find its devices: its ConfigMaps, then its labels. Nothing is bound yet.
///
/// # Errors
/// What its binding comes to.
pub async fn prepare(writer: &Writer, bind: &Bind, share: &Share) -> Result<(), Outcome> {
    for (name, data) in &share.maps {
        write_map(writer, bind, name, data).await?;
    }
    let change = json!({"metadata": {"uid": bind.uid, "labels": share.labels}});
    let api = writer.namespaced::<Pod>(&bind.pod.0);
    match outcome(writer.merge_metadata(&api, &bind.pod.1, &change).await) {
        Outcome::Done => Ok(()),
        // Whatever became of it, the pod is not bound by this.
        Outcome::Unsure(why) => Err(Outcome::Failed(why)),
        other => Err(other),
    }
}

/// A ConfigMap of a pod: made, or brought up to date if it is the pod's.
async fn write_map(
    writer: &Writer,
    bind: &Bind,
    name: &str,
    data: &BTreeMap<String, String>,
) -> Result<(), Outcome> {
    let failed = |why: &dyn Display| Outcome::Failed(format!("ConfigMap {name}: {why}"));
    let api = writer.namespaced::<ConfigMap>(&bind.pod.0);
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": bind.pod.1, "uid": bind.uid});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": bind.pod.0, "name": name, "ownerReferences": [owner]},
        "data": data});
    let map: ConfigMap = serde_json::from_value(map).map_err(|error| failed(&error))?;
    match writer.create(&api, &map).await {
        Ok(_) => return Ok(()),
        Err(WriteError::Exists { .. }) => {}
        Err(error) => return Err(failed(&error)),
    }
    let there = writer.read(&api, name).await.map_err(|error| failed(&error))?;
    let there = there.ok_or_else(|| failed(&"it was there and is gone"))?;
    let owners = there.metadata.owner_references.unwrap_or_default();
    if !owners.iter().any(|owner| owner.uid == bind.uid) {
        let pod = shown(&bind.pod);
        return Err(failed(&format!("it is there and not pod {pod}'s: delete it, or the pod")));
    }
    if there.data.unwrap_or_default() == *data {
        return Ok(());
    }
    let change = json!({"data": data});
    writer.merge(&api, name, &change).await.map(drop).map_err(|error| failed(&error))
}

/// The device that a reservation pod holds, as its node's agent says: by its uuid, or its number.
pub fn device(hub: &Hub, node: &str, uid: &str) -> Option<String> {
    let report = hub.agent_report(node, uid)?;
    let held = match report.pod.devices.as_slice() {
        [held] => held,
        _ => return None,
    };
    if let Some(part) = &held.part {
        return Some(part.clone());
    }
    let same = |device: &&muster_proto::device::Device| {
        (device.vendor, device.id) == (held.vendor, held.id)
    };
    let device = report.inventory.devices.iter().find(same)?;
    Some(device.uuid.clone().unwrap_or_else(|| held.id.to_string()))
}

#[cfg(test)]
mod tests {
    use muster_scheduler_state::object::name;
    use muster_scheduler_state::reservation::SharedDevice;

    use super::*;

    #[test]
    fn a_reservation_pod_asks_for_one_device_of_its_node_and_says_whose_it_is() {
        let spot = SharedDevice::new("node-1", "group");
        let tolerations = serde_json::from_value(json!([
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]))
        .unwrap();
        let pod = name("kai-resource-reservation", &spot.pod());
        let make = Make { spot, pod, resource: "nvidia.com/gpu".to_owned(), tolerations };
        let what = Reservation { image: "pause".to_owned(), command: Vec::new() };
        let pod = what.pod(&make, "kai-resource-reservation");
        let labels = json!({"app": "kai-resource-reservation", "runai-gpu-group": "group"});
        assert_eq!(pod["metadata"]["labels"], labels);
        assert_eq!(pod["spec"]["nodeName"], "node-1");
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["resources"]["limits"], json!({"nvidia.com/gpu": "1"}));
        assert_eq!(container.get("command"), None);
        assert_eq!(
            pod["spec"]["tolerations"],
            json!([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}])
        );
        serde_json::from_value::<Pod>(pod).unwrap();
    }
}
