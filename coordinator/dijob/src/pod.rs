//! A pod: as it was seen, or as it is to be made.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use muster_kube::Quantity;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api;
use crate::names::{self, env, label};
use crate::role::Role;

/// A pod. What is not looked at stays JSON, and is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pod {
    /// Name, labels, owners.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What runs in it.
    #[serde(default)]
    pub spec: Map<String, Value>,
    /// How it is.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub status: Map<String, Value>,
}

/// How a container stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It has done its work.
    Well,
    /// It has not.
    Badly,
}

// === impl Pod ===

impl Pod {
    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// A label; empty if it has none.
    pub fn label(&self, key: &str) -> &str {
        self.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map_or("", String::as_str)
    }

    /// An annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        Some(self.metadata.annotations.as_ref()?.get(key)?.as_str())
    }

    /// What it is for, if we know.
    pub fn role(&self) -> Option<Role> {
        Role::of(self.label(label::ROLE))
    }

    /// On its way out.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// The job that owns it.
    pub fn job(&self) -> Option<&OwnerReference> {
        let owners = self.metadata.owner_references.iter().flatten();
        owners.into_iter().find(|owner| {
            owner.kind == api::KIND && owner.api_version.split('/').next() == Some(api::GROUP)
        })
    }

    /// The aggregator that owns it, by its name.
    pub fn aggregator(&self) -> Option<&str> {
        let owners = self.metadata.owner_references.iter().flatten();
        owners.into_iter().find(|owner| owner.kind == "Pod").map(|owner| owner.name.as_str())
    }

    /// `Pending`, `Running`, …
    pub fn phase(&self) -> &str {
        self.status.get("phase").and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether it says that it is ready.
    pub fn is_ready(&self) -> bool {
        let conditions = self.status.get("conditions").and_then(Value::as_array);
        conditions
            .into_iter()
            .flatten()
            .any(|one| one["type"] == "Ready" && one["status"] == "True")
    }

    /// Whether none of its containers will run again.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase(), "Succeeded" | "Failed")
    }

    /// Whether it may run by now.
    pub fn is_on_a_node(&self) -> bool {
        self.spec.get("nodeName").and_then(Value::as_str).is_some_and(|node| !node.is_empty())
    }

    /// Its addresses, as far as its kubelet has reported them.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.reported("podIP", "podIPs")
    }

    /// Whether it has no address of its own.
    pub fn is_in_the_nodes_network(&self) -> bool {
        let node: Vec<IpAddr> = self.reported("hostIP", "hostIPs").collect();
        self.spec.get("hostNetwork").and_then(Value::as_bool) == Some(true)
            || self.addresses().any(|address| node.contains(&address))
    }

    fn reported(&self, one: &str, all: &str) -> impl Iterator<Item = IpAddr> {
        let list = self.status.get(all).and_then(Value::as_array).into_iter().flatten();
        let all = list.filter_map(|entry| entry.get("ip")).chain(self.status.get(one));
        let all = all.filter_map(|text| text.as_str()?.parse::<IpAddr>().ok());
        all.map(|address| address.to_canonical())
    }

    fn container_statuses(&self) -> impl Iterator<Item = &Value> {
        let all = self.status.get("containerStatuses").and_then(Value::as_array);
        all.into_iter().flatten()
    }

    /// Whether a container has ended, or is started again and again.
    pub fn has_stopped(&self) -> bool {
        self.container_statuses().any(|status| {
            status["state"]["terminated"].is_object()
                || status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        })
    }

    /// How the container has ended that does the work: the one that is called so, or named after the role, or alone.
    pub fn ended(&self) -> Option<Ended> {
        let named = |name: &str| self.container_statuses().find(|status| status["name"] == name);
        let role = self.role().map_or("", Role::word);
        let alone = || {
            let mut all = self.container_statuses();
            all.next().filter(|_| all.next().is_none())
        };
        let status = named(names::CONTAINER).or_else(|| named(role)).or_else(alone)?;
        let ended = status["state"]["terminated"].as_object()?;
        let code = ended.get("exitCode").and_then(Value::as_i64).unwrap_or_default();
        let error = ended.get("reason").and_then(Value::as_str) == Some("Error");
        Some(if code == 0 && !error { Ended::Well } else { Ended::Badly })
    }

    /// Its containers.
    pub fn containers(&self) -> impl Iterator<Item = &Value> {
        self.spec.get("containers").and_then(Value::as_array).into_iter().flatten()
    }

    /// Its containers, to be changed.
    pub fn containers_mut(&mut self) -> impl Iterator<Item = &mut Map<String, Value>> {
        let all = self.spec.get_mut("containers").and_then(Value::as_array_mut);
        all.into_iter().flatten().filter_map(Value::as_object_mut)
    }

    /// The container that has port and resources.
    pub fn worker(&self) -> Option<&Value> {
        self.containers().find(|container| container["name"] == names::CONTAINER)
    }

    /// The port of its service.
    pub fn port(&self) -> u32 {
        let ports = self.worker().and_then(|worker| worker["ports"].as_array());
        let own = ports.into_iter().flatten().find(|port| port["name"] == names::PORT);
        let own = own.and_then(|port| port["containerPort"].as_u64());
        let own = own.and_then(|port| u32::try_from(port).ok());
        own.unwrap_or_else(|| self.role().map_or(0, Role::port))
    }

    /// The ports of its further processes.
    pub fn gpu_ports(&self) -> Vec<u32> {
        let ports = self.worker().and_then(|worker| worker["ports"].as_array());
        let ports = ports.into_iter().flatten();
        let gpu = |port: &&Value| {
            port["name"].as_str().is_some_and(|name| name.starts_with(names::GPU_PORT))
        };
        let number = |port: &Value| u32::try_from(port["containerPort"].as_u64()?).ok();
        ports.filter(gpu).filter_map(number).collect()
    }

    /// Where it is reached: pod, namespace, port.
    pub fn url(&self) -> String {
        self.url_at(self.port())
    }

    /// The same at another port.
    pub fn url_at(&self, port: u32) -> String {
        format!("{}.{}:{port}", self.name(), self.namespace())
    }

    /// A variable of the container that does the work.
    pub fn variable(&self, name: &str) -> Option<&str> {
        let worker = self.worker().or_else(|| self.containers().next())?;
        let all = worker["env"].as_array()?;
        all.iter().find(|one| one["name"] == name)?["value"].as_str()
    }

    /// How many processes its logic learner has.
    pub fn world_size(&self) -> Option<u64> {
        self.variable(env::WORLD_SIZE)?.parse().ok()
    }

    /// A limit of the container that does the work, or a request if there are no limits.
    pub fn amount(&self, resource: &str) -> Option<Quantity> {
        let resources = &self.worker()?["resources"];
        let listed = |key: &str| resources[key].as_object().filter(|listed| !listed.is_empty());
        amount(listed("limits").or_else(|| listed("requests"))?.get(resource)?)
    }

    /// How many devices it has, of whatever maker.
    pub fn devices(&self) -> u64 {
        let Some(worker) = self.worker() else { return 0 };
        let resource = device(worker).unwrap_or(names::GPU);
        let amount = self.amount(resource).and_then(Quantity::exact_units);
        amount.and_then(|amount| u64::try_from(amount).ok()).unwrap_or_default()
    }

    /// With its kind, as the API takes it.
    pub fn to_value(&self) -> Value {
        let mut pod = serde_json::to_value(self).unwrap_or_default();
        if let Some(pod) = pod.as_object_mut() {
            pod.insert("apiVersion".to_owned(), "v1".into());
            pod.insert("kind".to_owned(), "Pod".into());
        }
        pod
    }

    /// Sets a variable in all containers: in its place if it is there.
    pub fn set_variable(&mut self, name: &str, value: &str) {
        for container in self.containers_mut() {
            let all = container.entry("env").or_insert_with(|| Value::Array(Vec::new()));
            if all.is_null() {
                *all = Value::Array(Vec::new());
            }
            let Some(all) = all.as_array_mut() else { continue };
            let new = serde_json::json!({"name": name, "value": value});
            match all.iter_mut().find(|one| one["name"] == name) {
                Some(known) => *known = new,
                None => all.push(new),
            }
        }
    }

    /// Labels, to be changed.
    pub fn labels_mut(&mut self) -> &mut BTreeMap<String, String> {
        self.metadata.labels.get_or_insert_default()
    }

    /// Annotations, to be changed.
    pub fn annotations_mut(&mut self) -> &mut BTreeMap<String, String> {
        self.metadata.annotations.get_or_insert_default()
    }
}

/// An amount as JSON has it: text or a number.
pub fn amount(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// The device that a container asks for, if it does.
pub fn device(container: &Value) -> Option<&str> {
    let listed = |key: &str| container["resources"][key].as_object();
    let all = [listed("limits"), listed("requests")];
    let mut names = all.into_iter().flatten().flat_map(Map::keys);
    names.find(|name| *name == names::GPU || name.starts_with(names::HUAWEI)).map(String::as_str)
}
