//! Services: defaults, cluster addresses and node ports.

use serde_json::{Map, Value, json};

use super::Prepare;
use super::field::{
    at, copy, entries, fields, fill, fill_absent, items, list, number, object, text, unset, within,
};

/// Defaults of a service.
pub(super) fn default(service: &mut Value) {
    let service = fields(service);
    let spec = within(service, "spec");
    fill(spec, "sessionAffinity", "None");
    if spec.get("sessionAffinity").and_then(Value::as_str) == Some("ClientIP") {
        let timeout = spec
            .get("sessionAffinityConfig")
            .and_then(|config| at(config, &["clientIP", "timeoutSeconds"]));
        if timeout.is_none() {
            let config = json!({"clientIP": {"timeoutSeconds": 10800}});
            spec.insert("sessionAffinityConfig".to_owned(), config);
        }
    } else if spec.get("sessionAffinity").and_then(Value::as_str) == Some("None") {
        spec.remove("sessionAffinityConfig");
    }
    fill(spec, "type", "ClusterIP");
    for port in items(spec, "ports") {
        fill(port, "protocol", "TCP");
        if unset(port, "targetPort") {
            let number = port.get("port").cloned().unwrap_or_default();
            port.insert("targetPort".to_owned(), number);
        }
    }
    if externally_accessible(spec) {
        fill(spec, "externalTrafficPolicy", "Cluster");
    }
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        fill_absent(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fill_absent(spec, "allocateLoadBalancerNodePorts", true);
        if let Some(balancer) =
            object(service, "status").and_then(|status| object(status, "loadBalancer"))
        {
            for ingress in items(balancer, "ingress") {
                if !unset(ingress, "ip") {
                    fill_absent(ingress, "ipMode", "VIP");
                }
            }
        }
    }
}

fn externally_accessible(spec: &Map<String, Value>) -> bool {
    match spec.get("type").and_then(Value::as_str) {
        Some("LoadBalancer" | "NodePort") => true,
        Some("ClusterIP") => {
            spec.get("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty())
        }
        _ => false,
    }
}

/// Gives a service the addresses and ports that it needs and does not name.
pub(super) fn allocate(service: &mut Value, cx: &Prepare<'_>) {
    let headless_without_selector = text(service, &["spec", "clusterIP"]) == "None"
        && entries(service, &["spec", "selector"]).next().is_none();
    let spec = within(fields(service), "spec");
    if !unset(spec, "clusterIP") && !spec.contains_key("clusterIPs") {
        let address = spec.get("clusterIP").cloned().unwrap_or_default();
        spec.insert("clusterIPs".to_owned(), json!([address]));
    }
    if spec.get("type").and_then(Value::as_str) == Some("ExternalName") {
        return;
    }
    if headless_without_selector {
        fill_absent(spec, "ipFamilyPolicy", "RequireDualStack");
        let both = spec.get("ipFamilyPolicy").and_then(Value::as_str) != Some("SingleStack");
        let families = spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
        if let Value::Array(families) = families
            && families.len() == 1
            && both
        {
            let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
            families.push(other.into());
        }
        return;
    }
    fill_absent(spec, "ipFamilyPolicy", "SingleStack");
    fill_absent(spec, "ipFamilies", json!(["IPv4"]));
    if unset(spec, "clusterIP") {
        let address = (cx.allocate_ip)();
        spec.insert("clusterIPs".to_owned(), json!([address]));
        spec.insert("clusterIP".to_owned(), address.into());
    }
    if needs_node_port(spec) {
        allocate_ports(spec, cx);
    }
}

fn allocate_ports(spec: &mut Map<String, Value>, cx: &Prepare<'_>) {
    let named: Vec<(i64, i64)> = spec
        .get("ports")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|port| Some((number(port, &["port"])?, number(port, &["nodePort"])?)))
        .collect();
    let mut given: Vec<(i64, i64)> = Vec::new();
    let balanced = spec.get("allocateLoadBalancerNodePorts").and_then(Value::as_bool);
    let wanted =
        spec.get("type").and_then(Value::as_str) == Some("NodePort") || balanced != Some(false);
    for port in items(spec, "ports") {
        let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
        if !unset(port, "nodePort") || !wanted {
            continue;
        }
        let known = given.iter().chain(&named).find(|(known, _)| *known == number);
        let node_port = known.map_or_else(|| i64::from((cx.allocate_port)()), |(_, port)| *port);
        given.push((number, node_port));
        port.insert("nodePort".to_owned(), node_port.into());
    }
    let local = spec.get("externalTrafficPolicy").and_then(Value::as_str) == Some("Local");
    let balancer = spec.get("type").and_then(Value::as_str) == Some("LoadBalancer");
    if local && balancer && unset(spec, "healthCheckNodePort") {
        spec.insert("healthCheckNodePort".to_owned(), (cx.allocate_port)().into());
    }
}

fn needs_cluster_ip(spec: &Map<String, Value>) -> bool {
    spec.get("type").and_then(Value::as_str) != Some("ExternalName")
}

fn needs_node_port(spec: &Map<String, Value>) -> bool {
    matches!(spec.get("type").and_then(Value::as_str), Some("NodePort" | "LoadBalancer"))
}

/// Keeps what the server once allocated, and drops what the new type has no use for.
pub(super) fn prepare_update(new: &mut Value, old: &Value) {
    let Some(known) = old.get("spec").and_then(Value::as_object) else { return };
    let old_spec = &old["spec"];
    let spec = within(fields(new), "spec");
    let same = |spec: &Map<String, Value>, key: &str| spec.get(key) == known.get(key);
    if needs_cluster_ip(known) && needs_cluster_ip(spec) {
        if unset(spec, "clusterIP") {
            copy(spec, old_spec, "clusterIP");
        }
        if !spec.contains_key("clusterIPs") {
            copy(spec, old_spec, "clusterIPs");
        }
        if !same(spec, "clusterIP") && same(spec, "clusterIPs") {
            let address = spec.get("clusterIP").cloned().unwrap_or_default();
            spec.insert("clusterIPs".to_owned(), json!([address]));
        }
        for key in ["ipFamilyPolicy", "ipFamilies"] {
            if !spec.contains_key(key) {
                copy(spec, old_spec, key);
            }
        }
    }
    if needs_cluster_ip(known) && !needs_cluster_ip(spec) {
        if same(spec, "clusterIPs") || !spec.contains_key("clusterIPs") {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        for key in ["ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            if same(spec, key) {
                spec.remove(key);
            }
        }
    }
    match (needs_node_port(known), needs_node_port(spec)) {
        (true, true) => keep_node_ports(spec, old),
        (true, false) => {
            let ports = |spec: &Value| -> Vec<Option<i64>> {
                list(spec, &["ports"]).iter().map(|port| number(port, &["nodePort"])).collect()
            };
            let unchanged = ports(&Value::Object(spec.clone())) == ports(old_spec);
            for port in items(spec, "ports").filter(|_| unchanged) {
                port.remove("nodePort");
            }
        }
        _ => {}
    }
    let was_balancer = known.get("type").and_then(Value::as_str) == Some("LoadBalancer");
    if was_balancer && spec.get("type").and_then(Value::as_str) != Some("LoadBalancer") {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"] {
            if same(spec, key) {
                spec.remove(key);
            }
        }
    }
    if externally_accessible(known)
        && !externally_accessible(spec)
        && same(spec, "externalTrafficPolicy")
    {
        spec.remove("externalTrafficPolicy");
    }
}

fn keep_node_ports(spec: &mut Map<String, Value>, old: &Value) {
    let old_ports = list(old, &["spec", "ports"]);
    let taken: Vec<i64> = spec
        .get("ports")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|port| number(port, &["nodePort"]))
        .collect();
    for port in items(spec, "ports").filter(|port| unset(port, "nodePort")) {
        let same_name = |known: &&Value| {
            text(known, &["name"]) == port.get("name").and_then(Value::as_str).unwrap_or_default()
        };
        let known = old_ports.iter().rev().find(same_name).and_then(|p| number(p, &["nodePort"]));
        if let Some(known) = known.filter(|known| !taken.contains(known)) {
            port.insert("nodePort".to_owned(), known.into());
        }
    }
}
