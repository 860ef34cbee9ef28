//! Containers of a pod.

use muster_kube::{FieldError, FieldErrorKind};
use serde_json::{Value, json};

use super::super::field::{at, list, number, text, truth};
use super::super::metadata::{complain, duplicate, forbidden, invalid, not_supported, required};
use super::super::names;
use super::resource;
use super::validate::one_of;
use super::volume::descending_path;

/// Checks all containers of a pod spec at `field`.
pub(super) fn validate_all(
    spec: &Value,
    volumes: &[String],
    field: &str,
    errors: &mut Vec<FieldError>,
) {
    let containers = list(spec, &["containers"]);
    if containers.is_empty() {
        errors.push(required(format!("{field}.containers"), ""));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (place, container) in containers.iter().enumerate() {
        let field = format!("{field}.containers[{place}]");
        common(container, volumes, &field, errors);
        let name = text(container, &["name"]);
        if seen.contains(&name) {
            errors.push(duplicate(&format!("{field}.name"), &json!(name)));
        }
        seen.push(name);
        running(container, &field, errors);
        if container.get("restartPolicy").is_some() {
            let detail = "may not be set for non-init containers";
            errors.push(forbidden(format!("{field}.restartPolicy"), detail));
        }
    }
    host_ports(containers, &format!("{field}.containers"), errors);
    for (place, container) in list(spec, &["initContainers"]).iter().enumerate() {
        let list_field = format!("{field}.initContainers");
        let field = format!("{list_field}[{place}]");
        common(container, volumes, &field, errors);
        let policy = text(container, &["restartPolicy"]);
        if container.get("restartPolicy").is_some() && policy != "Always" {
            errors.push(not_supported(&format!("{field}.restartPolicy"), policy, &["Always"]));
        }
        let name = text(container, &["name"]);
        if seen.contains(&name) {
            errors.push(duplicate(&format!("{field}.name"), &json!(name)));
        } else if !name.is_empty() {
            seen.push(name);
        }
        host_ports(std::slice::from_ref(container), &list_field, errors);
        if policy == "Always" {
            running(container, &field, errors);
            continue;
        }
        for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if container.get(key).is_some() {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.push(forbidden(format!("{field}.{key}"), detail));
            }
        }
    }
}

fn common(container: &Value, volumes: &[String], field: &str, errors: &mut Vec<FieldError>) {
    let name = text(container, &["name"]);
    if name.is_empty() {
        errors.push(required(format!("{field}.name"), ""));
    } else {
        complain(errors, &format!("{field}.name"), name, names::label(name));
    }
    if text(container, &["image"]).is_empty() {
        errors.push(required(format!("{field}.image"), ""));
    }
    let policies = ["File", "FallbackToLogsOnError"];
    one_of(container, "terminationMessagePolicy", field, &policies, errors);
    ports(container, field, errors);
    env(container, field, errors);
    mounts(container, volumes, &format!("{field}.volumeMounts"), errors);
    one_of(container, "imagePullPolicy", field, &["Always", "IfNotPresent", "Never"], errors);
    resource::validate(container, &format!("{field}.resources"), errors);
    for key in ["runAsUser", "runAsGroup"] {
        if let Some(id) = number(container, &["securityContext", key])
            && !(0..=i64::from(i32::MAX)).contains(&id)
        {
            let detail = names::out_of_range(0, i64::from(i32::MAX));
            errors.push(invalid(&format!("{field}.securityContext.{key}"), &json!(id), detail));
        }
    }
}

fn port_number(port: i64, field: String, errors: &mut Vec<FieldError>) {
    if !(1..=65535).contains(&port) {
        errors.push(invalid(&field, &json!(port), names::out_of_range(1, 65535)));
    }
}

fn ports(container: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let mut seen: Vec<&str> = Vec::new();
    for (place, port) in list(container, &["ports"]).iter().enumerate() {
        let field = format!("{field}.ports[{place}]");
        let name = text(port, &["name"]);
        if !name.is_empty() {
            let wrong = names::port_name(name);
            if !wrong.is_empty() {
                complain(errors, &format!("{field}.name"), name, wrong);
            } else if seen.contains(&name) {
                errors.push(duplicate(&format!("{field}.name"), &json!(name)));
            } else {
                seen.push(name);
            }
        }
        match number(port, &["containerPort"]).unwrap_or_default() {
            0 => errors.push(required(format!("{field}.containerPort"), "")),
            number => port_number(number, format!("{field}.containerPort"), errors),
        }
        if let Some(host) = number(port, &["hostPort"]).filter(|host| *host != 0) {
            port_number(host, format!("{field}.hostPort"), errors);
        }
        one_of(port, "protocol", &field, &["SCTP", "TCP", "UDP"], errors);
    }
}

fn host_ports(containers: &[Value], field: &str, errors: &mut Vec<FieldError>) {
    let mut seen: Vec<String> = Vec::new();
    for (place, container) in containers.iter().enumerate() {
        for (at, port) in list(container, &["ports"]).iter().enumerate() {
            let Some(host) = number(port, &["hostPort"]).filter(|host| *host != 0) else {
                continue;
            };
            let key = format!("{}/{}/{host}", text(port, &["protocol"]), text(port, &["hostIP"]));
            if seen.contains(&key) {
                let field = format!("{field}[{place}].ports[{at}].hostPort");
                errors.push(duplicate(&field, &json!(key)));
            } else {
                seen.push(key);
            }
        }
    }
}

fn env(container: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (place, variable) in list(container, &["env"]).iter().enumerate() {
        let field = format!("{field}.env[{place}]");
        let name = text(variable, &["name"]);
        if name.is_empty() {
            errors.push(required(format!("{field}.name"), ""));
        } else {
            variable_name(name, &format!("{field}.name"), errors);
        }
        let Some(source) = variable.get("valueFrom") else { continue };
        let field = format!("{field}.valueFrom");
        let kinds = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"];
        let given = kinds.iter().filter(|kind| source.get(kind).is_some()).count();
        for kind in ["configMapKeyRef", "secretKeyRef"] {
            let Some(reference) = source.get(kind) else { continue };
            let key = text(reference, &["key"]);
            let name = text(reference, &["name"]);
            complain(errors, &format!("{field}.{kind}.name"), name, names::subdomain(name));
            if key.is_empty() {
                errors.push(required(format!("{field}.{kind}.key"), ""));
            } else {
                complain(errors, &format!("{field}.{kind}.key"), key, names::data_key(key));
            }
        }
        if source.get("fieldRef").is_some() && text(source, &["fieldRef", "fieldPath"]).is_empty() {
            errors.push(required(format!("{field}.fieldRef.fieldPath"), ""));
        }
        let mut complain = |detail: &str| errors.push(invalid(&field, &json!(""), detail));
        if given == 0 {
            complain(
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
            );
        } else if !text(variable, &["value"]).is_empty() {
            complain("may not be specified when `value` is not empty");
        } else if given > 1 {
            complain("may not have more than one field specified at a time");
        }
    }
    for (place, source) in list(container, &["envFrom"]).iter().enumerate() {
        let list_field = format!("{field}.envFrom");
        let prefix = text(source, &["prefix"]);
        if !prefix.is_empty() {
            variable_name(prefix, &format!("{list_field}[{place}].prefix"), errors);
        }
        let kinds = ["configMapRef", "secretRef"];
        for kind in kinds.iter().filter(|kind| source.get(**kind).is_some()) {
            if text(source, &[kind, "name"]).is_empty() {
                errors.push(required(format!("{list_field}[{place}].{kind}.name"), ""));
            }
        }
        match kinds.iter().filter(|kind| source.get(**kind).is_some()).count() {
            0 => {
                let detail = "must specify one of: `configMapRef` or `secretRef`";
                errors.push(invalid(&list_field, &json!(""), detail));
            }
            1 => {}
            _ => {
                let detail = "may not have more than one field specified at a time";
                errors.push(invalid(&list_field, &json!(""), detail));
            }
        }
    }
}

fn variable_name(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    if name.chars().any(|c| !c.is_ascii() || c.is_ascii_control() || c == '=') {
        let detail = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        errors.push(invalid(field, &json!(name), detail));
    }
}

fn mounts(container: &Value, volumes: &[String], field: &str, errors: &mut Vec<FieldError>) {
    let mut seen: Vec<&str> = Vec::new();
    for (place, mount) in list(container, &["volumeMounts"]).iter().enumerate() {
        let item = format!("{field}[{place}]");
        let name = text(mount, &["name"]);
        if name.is_empty() {
            errors.push(required(format!("{item}.name"), ""));
        }
        if !volumes.iter().any(|known| known == name) {
            let field = format!("{item}.name");
            errors.push(FieldError::with_value(FieldErrorKind::NotFound, field, &json!(name), ""));
        }
        let path = text(mount, &["mountPath"]);
        if path.is_empty() {
            errors.push(required(format!("{item}.mountPath"), ""));
        }
        if seen.contains(&path) {
            errors.push(invalid(&format!("{item}.mountPath"), &json!(path), "must be unique"));
        }
        seen.push(path);
        for key in ["subPath", "subPathExpr"] {
            let path = text(mount, &[key]);
            if !path.is_empty() {
                descending_path(path, &format!("{field}.{key}"), errors);
            }
        }
        let mode = text(mount, &["mountPropagation"]);
        if mode == "Bidirectional" && !truth(container, &["securityContext", "privileged"]) {
            let detail =
                "Bidirectional mount propagation is available only to privileged containers";
            errors.push(forbidden(format!("{field}.mountPropagation"), detail));
        }
        let modes = ["Bidirectional", "HostToContainer", "None"];
        if !mode.is_empty() && !modes.contains(&mode) {
            errors.push(not_supported(&format!("{field}.mountPropagation"), mode, &modes));
        }
    }
}

/// Probes and hooks of a container that keeps running.
fn running(container: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for hook in ["postStart", "preStop"] {
        if let Some(hook_value) = at(container, &["lifecycle", hook]) {
            handler(hook_value, &format!("{field}.lifecycle.{hook}"), errors);
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get(kind) else { continue };
        let field = format!("{field}.{kind}");
        handler(probe, &field, errors);
        for key in [
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ] {
            if let Some(number) = number(probe, &[key]).filter(|number| *number < 0) {
                let detail = "must be greater than or equal to 0";
                errors.push(invalid(&format!("{field}.{key}"), &json!(number), detail));
            }
        }
        let successes = number(probe, &["successThreshold"]).unwrap_or_default();
        if kind != "readinessProbe" && successes != 1 {
            errors.push(invalid(
                &format!("{field}.successThreshold"),
                &json!(successes),
                "must be 1",
            ));
        }
    }
}

fn handler(holder: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let mut found = false;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let Some(action) = holder.get(kind) else { continue };
        let field = format!("{field}.{kind}");
        if found {
            errors.push(forbidden(field, "may not specify more than 1 handler type"));
            continue;
        }
        found = true;
        match kind {
            "exec" if list(action, &["command"]).is_empty() => {
                errors.push(required(format!("{field}.command"), ""));
            }
            "httpGet" | "tcpSocket" => {
                match action.get("port") {
                    Some(Value::String(name)) => {
                        complain(errors, &format!("{field}.port"), name, names::port_name(name));
                    }
                    port => {
                        let number = port.and_then(Value::as_i64).unwrap_or_default();
                        port_number(number, format!("{field}.port"), errors);
                    }
                }
                let scheme = text(action, &["scheme"]);
                if kind == "httpGet" && !matches!(scheme, "HTTP" | "HTTPS") {
                    let field = format!("{field}.scheme");
                    errors.push(not_supported(&field, scheme, &["HTTP", "HTTPS"]));
                }
            }
            "grpc" => {
                let number = number(action, &["port"]).unwrap_or_default();
                port_number(number, format!("{field}.port"), errors);
            }
            _ => {}
        }
    }
    if !found {
        errors.push(required(field, "must specify a handler type"));
    }
}
