//! Services, endpoint slices and network policies.

use muster_kube::{FieldError, FieldErrorKind};
use serde_json::{Value, json};

use super::selector;
use crate::builtin::field::{at, list, number, text};
use crate::builtin::metadata::{
    complain, duplicate, forbidden, invalid, labels, not_supported, required,
};
use crate::builtin::names;

fn is_headless(service: &Value) -> bool {
    list(service, &["spec", "clusterIPs"]).first().is_some_and(|first| first == "None")
}

pub(super) fn service(service: &Value, errors: &mut Vec<FieldError>) {
    let kind = text(service, &["spec", "type"]);
    let ports = list(service, &["spec", "ports"]);
    let headless = is_headless(service);
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.push(required("spec.ports", ""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => errors.push(invalid(
            "spec.clusterIPs[0]",
            &json!("None"),
            format!("may not be set to 'None' for {kind} services"),
        )),
        "ExternalName" => external_name(service, errors),
        _ => {}
    }
    let mut seen = Vec::new();
    for (place, one) in ports.iter().enumerate() {
        let field = format!("spec.ports[{place}]");
        port(one, ports.len() > 1, &field, &mut seen, errors);
    }
    let empty = Value::Null;
    let selector = at(service, &["spec", "selector"]).unwrap_or(&empty);
    labels(selector, "spec.selector", errors);
    let affinity = text(service, &["spec", "sessionAffinity"]);
    if affinity.is_empty() {
        errors.push(required("spec.sessionAffinity", ""));
    } else if !matches!(affinity, "ClientIP" | "None") {
        errors.push(not_supported("spec.sessionAffinity", affinity, &["ClientIP", "None"]));
    }
    if kind != "ExternalName" {
        addresses(service, errors);
    }
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !kinds.contains(&kind) {
        errors.push(not_supported("spec.type", kind, &kinds));
    }
    repeated_ports(kind, ports, errors);
}

fn external_name(service: &Value, errors: &mut Vec<FieldError>) {
    for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if at(service, &["spec", key]).is_some() {
            let detail = "may not be set for ExternalName services";
            errors.push(forbidden(format!("spec.{key}"), detail));
        }
    }
    let name = text(service, &["spec", "externalName"]);
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        errors.push(required("spec.externalName", ""));
    } else {
        complain(errors, "spec.externalName", name, names::subdomain(name));
    }
}

fn port<'a>(
    port: &'a Value,
    needs_name: bool,
    field: &str,
    seen: &mut Vec<&'a str>,
    errors: &mut Vec<FieldError>,
) {
    let name = text(port, &["name"]);
    if needs_name && name.is_empty() {
        errors.push(required(format!("{field}.name"), ""));
    } else if !name.is_empty() {
        complain(errors, &format!("{field}.name"), name, names::label(name));
        if seen.contains(&name) {
            errors.push(duplicate(&format!("{field}.name"), &json!(name)));
        }
        seen.push(name);
    }
    let in_range = |number: i64| (1..=65535).contains(&number);
    let number_ = number(port, &["port"]).unwrap_or_default();
    if !in_range(number_) {
        let detail = names::out_of_range(1, 65535);
        errors.push(invalid(&format!("{field}.port"), &json!(number_), detail));
    }
    let protocol = text(port, &["protocol"]);
    let protocols = ["SCTP", "TCP", "UDP"];
    if protocol.is_empty() {
        errors.push(required(format!("{field}.protocol"), ""));
    } else if !protocols.contains(&protocol) {
        errors.push(not_supported(&format!("{field}.protocol"), protocol, &protocols));
    }
    let field = format!("{field}.targetPort");
    match port.get("targetPort") {
        Some(Value::String(name)) => complain(errors, &field, name, names::port_name(name)),
        target => {
            let target = target.and_then(Value::as_i64).unwrap_or_default();
            if !in_range(target) {
                errors.push(invalid(&field, &json!(target), names::out_of_range(1, 65535)));
            }
        }
    }
}

fn addresses(service: &Value, errors: &mut Vec<FieldError>) {
    let one = text(service, &["spec", "clusterIP"]);
    let all = list(service, &["spec", "clusterIPs"]);
    let first = all.first().and_then(Value::as_str).unwrap_or_default();
    if one.is_empty() && !all.is_empty() {
        let detail = "must be empty when `clusterIP` is not specified";
        errors.push(invalid("spec.clusterIPs", &json!(all), detail));
    } else if !one.is_empty() && all.is_empty() {
        errors.push(required("spec.clusterIPs", ""));
    } else if one != first {
        let detail = "first value must match `clusterIP`";
        errors.push(invalid("spec.clusterIPs", &json!(all), detail));
    }
    let families = list(service, &["spec", "ipFamilies"]);
    for (place, family) in families.iter().enumerate() {
        let family = family.as_str().unwrap_or_default();
        let field = format!("spec.ipFamilies[{place}]");
        if !matches!(family, "IPv4" | "IPv6") {
            errors.push(not_supported(&field, family, &["IPv4", "IPv6"]));
        }
        if families[..place].iter().any(|other| other == family) {
            errors.push(duplicate(&field, &json!(family)));
        }
    }
    let policy = text(service, &["spec", "ipFamilyPolicy"]);
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    if !policy.is_empty() && !policies.contains(&policy) {
        errors.push(not_supported("spec.ipFamilyPolicy", policy, &policies));
    }
    for (place, address) in all.iter().enumerate() {
        let text = address.as_str().unwrap_or_default();
        if text != "None" && text.parse::<std::net::IpAddr>().is_err() {
            errors.push(invalid(
                &format!("spec.clusterIPs[{place}]"),
                address,
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ));
        }
    }
}

fn repeated_ports(kind: &str, ports: &[Value], errors: &mut Vec<FieldError>) {
    let node_port = |port: &Value| number(port, &["nodePort"]).filter(|number| *number != 0);
    for (place, port) in ports.iter().enumerate() {
        if kind == "ClusterIP" && node_port(port).is_some() {
            let field = format!("spec.ports[{place}].nodePort");
            errors.push(forbidden(field, "may not be used when `type` is 'ClusterIP'"));
        }
    }
    let protocol = |port: &Value| text(port, &["protocol"]).to_owned();
    for (place, port) in ports.iter().enumerate() {
        let Some(taken) = node_port(port) else { continue };
        let same =
            |other: &Value| node_port(other) == Some(taken) && protocol(other) == protocol(port);
        if ports[..place].iter().any(same) {
            errors.push(duplicate(&format!("spec.ports[{place}].nodePort"), &json!(taken)));
        }
    }
    for (place, port) in ports.iter().enumerate() {
        let number_ = number(port, &["port"]);
        let same = |other: &Value| {
            number(other, &["port"]) == number_ && protocol(other) == protocol(port)
        };
        if ports[..place].iter().any(same) {
            let field = format!("spec.ports[{place}]");
            let mut error = FieldError::new(FieldErrorKind::Duplicate, field, "");
            error.bad_value = muster_kube::BadValue::Printed(format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                json!(protocol(port)),
                number_.unwrap_or_default()
            ));
            errors.push(error);
        }
    }
}

/// A service keeps its cluster addresses.
pub(super) fn service_update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let kind = |service: &Value| text(service, &["spec", "type"]) == "ExternalName";
    if kind(new) || kind(old) || (is_headless(new) && is_headless(old)) {
        return;
    }
    for (key, unset, changed) in [
        ("clusterIPs", "primary clusterIP can not be unset", "may not change once set"),
        ("ipFamilies", "primary ipFamily can not be unset", "may not change once set"),
    ] {
        let (now, before) = (list(new, &["spec", key]), list(old, &["spec", key]));
        if before.is_empty() {
            continue;
        }
        let field = |place: usize| format!("spec.{key}[{place}]");
        if now.is_empty() {
            errors.push(invalid(&field(0), &Value::Null, unset));
        } else if now.len() == before.len() {
            for place in (0..now.len()).filter(|place| now[*place] != before[*place]) {
                errors.push(invalid(&field(place), &json!(now), changed));
            }
        } else if now[0] != before[0] {
            errors.push(invalid(&field(0), &json!(now), changed));
        }
    }
}

/// An endpoint slice.
pub(super) fn endpoint_slice(slice: &Value, errors: &mut Vec<FieldError>) {
    let kind = text(slice, &["addressType"]);
    let kinds = ["FQDN", "IPv4", "IPv6"];
    if kind.is_empty() {
        errors.push(required("addressType", ""));
    } else if !kinds.contains(&kind) {
        errors.push(not_supported("addressType", kind, &kinds));
    }
    for (place, endpoint) in list(slice, &["endpoints"]).iter().enumerate() {
        if list(endpoint, &["addresses"]).is_empty() {
            let field = format!("endpoints[{place}].addresses");
            errors.push(required(field, "must contain at least 1 address"));
        }
    }
    let ports = list(slice, &["ports"]);
    for (place, port) in ports.iter().enumerate() {
        let name = text(port, &["name"]);
        if ports[..place].iter().any(|other| text(other, &["name"]) == name) {
            errors.push(duplicate(&format!("ports[{place}].name"), &json!(name)));
        }
        let protocol = text(port, &["protocol"]);
        let protocols = ["SCTP", "TCP", "UDP"];
        if !protocols.contains(&protocol) {
            errors.push(not_supported(&format!("ports[{place}].protocol"), protocol, &protocols));
        }
    }
}

/// A network policy: its selectors and the directions it names.
pub(super) fn policy(policy: &Value, errors: &mut Vec<FieldError>) {
    if let Some(one) = at(policy, &["spec", "podSelector"]) {
        selector::check(one, "spec.podSelector", errors);
    }
    for (place, kind) in list(policy, &["spec", "policyTypes"]).iter().enumerate() {
        let kind = kind.as_str().unwrap_or_default();
        if !matches!(kind, "Egress" | "Ingress") {
            let field = format!("spec.policyTypes[{place}]");
            errors.push(not_supported(&field, kind, &["Ingress", "Egress"]));
        }
    }
}
