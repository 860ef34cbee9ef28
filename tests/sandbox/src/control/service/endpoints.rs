//! From a Service and its pods to EndpointSlices and Endpoints: pure.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use muster_objects::meta;
use serde_json::{Map, Value, json};

use super::super::json::{self, controller_reference};
use super::super::kind::SERVICES;

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";
const ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const ENDPOINTS_MANAGER: &str = "endpoint-controller";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
const ZONE: &str = "topology.kubernetes.io/zone";
/// Most endpoints of a slice, and most addresses of an Endpoints object.
const SLICE_SIZE: usize = 100;
const ADDRESSES: usize = 1000;

/// Ports, ready addresses and waiting ones.
type Subset = (Vec<Value>, Vec<Value>, Vec<Value>);

/// What to do with one slice.
#[derive(Debug, Clone, PartialEq)]
pub enum SliceChange {
    /// The slice is to be created.
    Create(Value),
    /// The slice is to be replaced.
    Update(Value),
    /// The slice is to be deleted.
    Delete(Arc<Value>),
}

/// Whether a slice is this controller's and of this Service.
pub fn is_ours(slice: &Value, service: &str) -> bool {
    meta::label(slice, MANAGED_BY) == Some(MANAGER)
        && meta::label(slice, SERVICE_NAME) == Some(service)
}

/// The Service that a slice of this controller belongs to.
pub fn service_of(slice: &Value) -> Option<&str> {
    (meta::label(slice, MANAGED_BY) == Some(MANAGER)).then(|| meta::label(slice, SERVICE_NAME))?
}

fn is_headless(service: &Value) -> bool {
    matches!(json::text(service, "/spec/clusterIP"), "None" | "")
}

fn is_over(pod: &Value) -> bool {
    matches!(json::text(pod, "/status/phase"), "Succeeded" | "Failed")
}

fn addresses(pod: &Value, six: bool) -> Vec<&str> {
    let mut all: Vec<&str> =
        json::list(pod, "/status/podIPs").iter().map(|ip| json::text(ip, "/ip")).collect();
    if all.is_empty() {
        all.push(json::text(pod, "/status/podIP"));
    }
    all.retain(|ip| !ip.is_empty() && ip.contains(':') == six);
    all
}

/// The number behind a Service port on this pod; a named target is looked up in the containers.
fn port_number(pod: &Value, port: &Value) -> Option<i64> {
    let protocol = |value: &Value| match json::text(value, "/protocol") {
        "" => "TCP".to_owned(),
        protocol => protocol.to_owned(),
    };
    match port.get("targetPort") {
        Some(Value::String(name)) => {
            let plain = json::list(pod, "/spec/containers").iter();
            let sidecars = json::list(pod, "/spec/initContainers")
                .iter()
                .filter(|c| json::text(c, "/restartPolicy") == "Always");
            plain
                .chain(sidecars)
                .flat_map(|container| json::list(container, "/ports"))
                .find(|p| json::text(p, "/name") == name && protocol(p) == protocol(port))
                .and_then(|p| json::int(p, "/containerPort"))
        }
        Some(Value::Number(number)) if number.as_i64() != Some(0) => number.as_i64(),
        _ => json::int(port, "/port"),
    }
}

fn ports(service: &Value, pod: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    for port in json::list(service, "/spec/ports") {
        let Some(number) = port_number(pod, port) else { continue };
        let mut entry = json!({
            "name": json::text(port, "/name"),
            "port": number,
            "protocol": port.get("protocol").cloned().unwrap_or_else(|| "TCP".into()),
        });
        if let Some(app) = port.get("appProtocol") {
            entry["appProtocol"] = app.clone();
        }
        found.push(entry);
    }
    found
}

fn hostname<'a>(service: &Value, pod: &'a Value) -> Option<&'a str> {
    let name = json::text(pod, "/spec/hostname");
    (!name.is_empty()
        && json::text(pod, "/spec/subdomain") == meta::name(service)
        && meta::namespace(pod) == meta::namespace(service))
    .then_some(name)
}

fn target(pod: &Value) -> Value {
    json!({"kind": "Pod", "namespace": meta::namespace(pod), "name": meta::name(pod),
        "uid": meta::uid(pod)})
}

fn endpoint(service: &Value, pod: &Value, six: bool, nodes: &HashMap<String, Arc<Value>>) -> Value {
    let serving = json::is_true(pod, "Ready");
    let terminating = meta::is_terminating(pod);
    let publish = json::flag(service, "/spec/publishNotReadyAddresses");
    let mut endpoint = json!({
        "addresses": addresses(pod, six),
        "conditions": {
            "ready": publish || (serving && !terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "targetRef": target(pod),
    });
    let node = json::text(pod, "/spec/nodeName");
    if !node.is_empty() {
        endpoint["nodeName"] = node.into();
        let zone = nodes.get(node).and_then(|node| meta::label(node, ZONE));
        if let Some(zone) = zone.filter(|zone| !zone.is_empty()) {
            endpoint["zone"] = zone.into();
        }
    }
    if let Some(hostname) = hostname(service, pod) {
        endpoint["hostname"] = hostname.into();
    }
    endpoint
}

fn service_labels(service: &Value) -> Map<String, Value> {
    let mut labels =
        service.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default();
    for reserved in [SERVICE_NAME, MANAGED_BY, HEADLESS] {
        labels.remove(reserved);
    }
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), "".into());
    }
    labels
}

fn slice_labels(service: &Value) -> Map<String, Value> {
    let mut labels = service_labels(service);
    labels.insert(SERVICE_NAME.to_owned(), meta::name(service).into());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.into());
    labels
}

/// What must change so that the slices of a Service show its pods.
pub fn slices(
    service: &Value,
    pods: &[Arc<Value>],
    nodes: &HashMap<String, Arc<Value>>,
    existing: &[Arc<Value>],
) -> Vec<SliceChange> {
    let mut families: Vec<&str> =
        json::list(service, "/spec/ipFamilies").iter().filter_map(Value::as_str).collect();
    if families.is_empty() {
        families.push("IPv4");
    }
    let mut changes: Vec<SliceChange> = existing
        .iter()
        .filter(|slice| !families.contains(&json::text(slice, "/addressType")))
        .map(|slice| SliceChange::Delete(slice.clone()))
        .collect();
    for family in families {
        let six = family == "IPv6";
        // Pods may resolve a named port differently, so slices are kept per set of ports.
        let mut wanted: BTreeMap<String, (Vec<Value>, BTreeMap<String, Value>)> = BTreeMap::new();
        for pod in pods.iter().filter(|p| !is_over(p) && !addresses(p, six).is_empty()) {
            let ports = ports(service, pod);
            let key = Value::from(ports.clone()).to_string();
            let group = wanted.entry(key).or_insert_with(|| (ports, BTreeMap::new()));
            group.1.insert(meta::uid(pod).to_owned(), endpoint(service, pod, six, nodes));
        }
        let mine: Vec<&Arc<Value>> =
            existing.iter().filter(|s| json::text(s, "/addressType") == family).collect();
        family_changes(service, family, wanted, &mine, &mut changes);
    }
    changes
}

fn ports_key(slice: &Value) -> String {
    Value::from(json::list(slice, "/ports").to_vec()).to_string()
}

fn family_changes(
    service: &Value,
    family: &str,
    wanted: BTreeMap<String, (Vec<Value>, BTreeMap<String, Value>)>,
    mine: &[&Arc<Value>],
    changes: &mut Vec<SliceChange>,
) {
    let labels = slice_labels(service);
    let mut kept: HashSet<&str> = HashSet::new();
    let nothing = wanted.is_empty();
    let groups = match nothing {
        // A Service without pods keeps one empty slice.
        true => BTreeMap::from([(String::new(), (Vec::new(), BTreeMap::new()))]),
        false => wanted,
    };
    for (key, (ports, mut endpoints)) in groups {
        let fitting = mine
            .iter()
            .filter(|s| !kept.contains(meta::name(s)) && (nothing || ports_key(s) == key));
        let fitting: Vec<&Arc<Value>> = fitting.copied().collect();
        // What stands in a slice stays there.
        let mut filled: Vec<(&Arc<Value>, Vec<Value>)> = Vec::new();
        for slice in fitting {
            let stay = json::list(slice, "/endpoints")
                .iter()
                .filter_map(|e| endpoints.remove(json::text(e, "/targetRef/uid")))
                .collect();
            filled.push((slice, stay));
        }
        let mut new: Vec<Value> = endpoints.into_values().collect();
        for (_, stay) in &mut filled {
            let room = SLICE_SIZE.saturating_sub(stay.len()).min(new.len());
            stay.extend(new.drain(..room));
        }
        if nothing {
            filled.truncate(1);
        } else {
            filled.retain(|(_, stay)| !stay.is_empty());
        }
        if filled.is_empty() && new.is_empty() && nothing {
            changes.push(SliceChange::Create(slice(service, family, &labels, &ports, Vec::new())));
        }
        for chunk in new.chunks(SLICE_SIZE) {
            changes.push(SliceChange::Create(slice(
                service,
                family,
                &labels,
                &ports,
                chunk.to_vec(),
            )));
        }
        for (have, stay) in filled {
            kept.insert(meta::name(have));
            let ports: Vec<Value> =
                if nothing { json::list(have, "/ports").to_vec() } else { ports.clone() };
            let same = json::list(have, "/endpoints") == stay
                && json::list(have, "/ports") == ports
                && have.pointer("/metadata/labels").and_then(Value::as_object) == Some(&labels);
            if !same {
                let mut object = Value::clone(have);
                object["endpoints"] = stay.into();
                object["ports"] = ports.into();
                object["metadata"]["labels"] = labels.clone().into();
                changes.push(SliceChange::Update(object));
            }
        }
    }
    let gone = mine.iter().filter(|slice| !kept.contains(meta::name(slice)));
    changes.extend(gone.map(|slice| SliceChange::Delete(Arc::clone(slice))));
}

fn slice(
    service: &Value,
    family: &str,
    labels: &Map<String, Value>,
    ports: &[Value],
    endpoints: Vec<Value>,
) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": format!("{}-", meta::name(service)),
            "namespace": meta::namespace(service),
            "labels": labels,
            "ownerReferences": [controller_reference(&SERVICES, service)],
        },
        "addressType": family,
        "endpoints": endpoints,
        "ports": ports,
    })
}

/// The Endpoints object of a Service: labels, annotations and subsets.
pub fn endpoints(service: &Value, pods: &[Arc<Value>]) -> (Value, bool) {
    let publish = json::flag(service, "/spec/publishNotReadyAddresses");
    let six = json::list(service, "/spec/ipFamilies").first().is_some_and(|f| f == "IPv6");
    let mut groups: BTreeMap<String, Subset> = BTreeMap::new();
    let mut count = 0;
    for pod in pods {
        if is_over(pod) || (meta::is_terminating(pod) && !publish) {
            continue;
        }
        let Some(ip) = addresses(pod, six).first().map(|ip| (*ip).to_owned()) else { continue };
        let mut ports = ports(service, pod);
        for port in &mut ports {
            if json::text(port, "/name").is_empty()
                && let Some(port) = port.as_object_mut()
            {
                port.remove("name");
            }
        }
        if ports.is_empty() && !json::list(service, "/spec/ports").is_empty() {
            continue;
        }
        count += 1;
        if count > ADDRESSES {
            break;
        }
        let mut address = json!({"ip": ip, "targetRef": target(pod)});
        let node = json::text(pod, "/spec/nodeName");
        if !node.is_empty() {
            address["nodeName"] = node.into();
        }
        if let Some(hostname) = hostname(service, pod) {
            address["hostname"] = hostname.into();
        }
        let key = Value::from(ports.clone()).to_string();
        let group = groups.entry(key).or_insert_with(|| (ports, Vec::new(), Vec::new()));
        let ready = publish || json::is_true(pod, "Ready");
        if ready { group.1.push(address) } else { group.2.push(address) }
    }
    let subsets: Vec<Value> = groups
        .into_values()
        .map(|(ports, ready, waiting)| {
            let mut subset = json!({});
            for (field, list) in
                [("addresses", ready), ("notReadyAddresses", waiting), ("ports", ports)]
            {
                if !list.is_empty() {
                    subset[field] = list.into();
                }
            }
            subset
        })
        .collect();
    let mut labels = service_labels(service);
    labels.insert(ENDPOINTS_MANAGED_BY.to_owned(), ENDPOINTS_MANAGER.into());
    let object = json!({
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": meta::name(service), "namespace": meta::namespace(service),
            "labels": labels},
        "subsets": subsets,
    });
    (object, count > ADDRESSES)
}

/// The Endpoints object to write, if what there is differs.
pub fn endpoints_change(
    service: &Value,
    pods: &[Arc<Value>],
    existing: Option<&Value>,
) -> Option<SliceChange> {
    let (mut wanted, truncated) = endpoints(service, pods);
    if truncated {
        wanted["metadata"]["annotations"] = json!({OVER_CAPACITY: "truncated"});
    }
    let Some(have) = existing else { return Some(SliceChange::Create(wanted)) };
    let same = json::list(have, "/subsets") == json::list(&wanted, "/subsets")
        && have.pointer("/metadata/labels") == wanted.pointer("/metadata/labels");
    if same {
        return None;
    }
    let mut object = have.clone();
    object["subsets"] = wanted["subsets"].take();
    object["metadata"]["labels"] = wanted["metadata"]["labels"].take();
    if truncated {
        object["metadata"]["annotations"] = json!({OVER_CAPACITY: "truncated"});
    }
    Some(SliceChange::Update(object))
}

#[cfg(test)]
mod tests;
