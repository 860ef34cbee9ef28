//! What of the chart leads to what: selectors to pods, ports to programs, webhooks to Services, permissions to accounts.

use std::collections::BTreeSet;

use muster_serving::webhook::configure;
use serde_json::Value;

use super::{Rendered, items, name, pods};

/// Whether all labels of a selector are among these.
fn fits(selector: &Value, labels: &Value) -> bool {
    let wanted = selector.as_object();
    wanted.is_some_and(|wanted| {
        !wanted.is_empty() && wanted.iter().all(|(key, value)| labels[key] == *value)
    })
}

/// The templates of pods.
fn templates(rendered: &Rendered) -> Vec<&Value> {
    let owners = rendered.of("Deployment").chain(rendered.of("DaemonSet"));
    owners.map(|one| &one["spec"]["template"]).collect()
}

/// Every selector finds exactly one of our templates, or Service.
pub fn selectors(rendered: &Rendered) -> Vec<String> {
    let pods = templates(rendered);
    let one_of = |selector: &Value| {
        pods.iter().filter(|pod| fits(selector, &pod["metadata"]["labels"])).count() == 1
    };
    let mut broken = Vec::new();
    for object in rendered.objects() {
        let spec = &object["spec"];
        let found = match object["kind"].as_str().unwrap_or_default() {
            "Service" => one_of(&spec["selector"]),
            "Deployment" | "DaemonSet" => {
                let labels = &spec["template"]["metadata"]["labels"];
                fits(&spec["selector"]["matchLabels"], labels)
            }
            "PodDisruptionBudget" | "PodMonitor" => one_of(&spec["selector"]["matchLabels"]),
            "NetworkPolicy" => one_of(&spec["podSelector"]["matchLabels"]),
            "ServiceMonitor" => rendered
                .of("Service")
                .any(|one| fits(&spec["selector"]["matchLabels"], &one["metadata"]["labels"])),
            _ => continue,
        };
        if !found {
            broken.push(name(object));
        }
    }
    broken
}

/// The port at the end of a flag's value.
fn flag(words: &[String], flag: &str) -> Option<u64> {
    let value = words.iter().find_map(|word| word.strip_prefix(&format!("--{flag}=")))?;
    value.rsplit(':').next()?.parse().ok()
}

/// Services, policies, monitors and probes name ports that containers have; containers have the ports of their flags.
pub fn ports(rendered: &Rendered) -> Vec<String> {
    let mut broken = Vec::new();
    let mut known = BTreeSet::new();
    for pod in templates(rendered) {
        for container in items(&pod["spec"]["containers"]) {
            let program = container["name"].as_str().unwrap_or_default();
            let words = pods::words(container, program);
            for port in items(&container["ports"]) {
                let named = port["name"].as_str().unwrap_or_default();
                known.insert(named.to_owned());
                // Trainer's clients know the port of its status server by that name.
                let said = match named {
                    "status" => "listen",
                    "status-server" => "progress-server",
                    other => other,
                };
                let listens = flag(&words, said);
                if listens.is_none() || listens != port["containerPort"].as_u64() {
                    broken.push(format!("{program}: port {named} is not where it listens"));
                }
            }
            for probe in ["livenessProbe", "readinessProbe"] {
                if container[probe]["httpGet"]["port"] != "status" {
                    broken.push(format!("{program}: {probe} asks elsewhere"));
                }
            }
        }
    }
    let number = |port: &Value, name: &str| -> bool {
        port.as_str().is_some_and(|word| known.contains(word))
            // The DI server's Service is written with its number.
            || (name == "di-server" && port.as_u64() == Some(8080) && known.contains(name))
    };
    for object in rendered.objects() {
        let spec = &object["spec"];
        let named = object["metadata"]["name"].as_str().unwrap_or_default();
        let asked: Vec<&Value> = match object["kind"].as_str().unwrap_or_default() {
            "Service" => items(&spec["ports"]).map(|port| &port["targetPort"]).collect(),
            "NetworkPolicy" => items(&spec["ingress"])
                .flat_map(|rule| items(&rule["ports"]).map(|port| &port["port"]))
                .collect(),
            "ServiceMonitor" => items(&spec["endpoints"]).map(|end| &end["port"]).collect(),
            "PodMonitor" => items(&spec["podMetricsEndpoints"]).map(|end| &end["port"]).collect(),
            _ => continue,
        };
        if asked.is_empty() || !asked.iter().all(|port| number(port, named)) {
            broken.push(format!("{}: {asked:?}", name(object)));
        }
    }
    broken
}

/// The condition of webhooks that are asked about pods of the schedulers that the coordinator's flags name.
fn ours(rendered: &Rendered) -> String {
    let pods = templates(rendered);
    let containers = pods.iter().flat_map(|pod| items(&pod["spec"]["containers"]));
    let words = containers.flat_map(|container| pods::words(container, "coordinator"));
    let names: Vec<String> = words
        .filter_map(|word| word.strip_prefix("--scheduler-name=").map(str::to_owned))
        .collect();
    let default = muster_scheduler_state::Settings::default().scheduler_names;
    configure::ours(if names.is_empty() { &default } else { &names })
}

/// Webhooks call port 443 of our Service in our namespace, get their authority from the coordinator, never see pods of our own
/// namespace, and are asked about pods of all of the coordinator's schedulers.
pub fn webhooks(rendered: &Rendered) -> Vec<String> {
    let (mut broken, ours) = (Vec::new(), ours(rendered));
    let kinds = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
    for object in kinds.into_iter().flat_map(|kind| rendered.of(kind)) {
        if object["metadata"]["annotations"]["muster.dev/inject-ca"] != "true" {
            broken.push(format!("{}: nobody fills in caBundle", name(object)));
        }
        for hook in items(&object["webhooks"]) {
            let called = &hook["clientConfig"]["service"];
            let service = called["name"].as_str().and_then(|name| rendered.get("Service", name));
            let there = service.is_some_and(|service| {
                service["metadata"]["namespace"] == called["namespace"]
                    && items(&service["spec"]["ports"]).any(|port| port["port"] == called["port"])
            });
            let pods = items(&hook["rules"])
                .any(|rule| items(&rule["resources"]).any(|resource| resource == "pods"));
            let out = items(&hook["namespaceSelector"]["matchExpressions"])
                .any(|one| items(&one["values"]).any(|value| *value == called["namespace"]));
            let mut conditions = items(&hook["matchConditions"]);
            let condition = conditions.find(|one| one["name"] == configure::OURS);
            if condition.is_some_and(|one| one["expression"] != ours) {
                broken.push(format!(
                    "{}: {} is not asked about all of our pods",
                    name(object),
                    hook["name"]
                ));
            }
            if !there {
                broken.push(format!("{}: {} calls nobody", name(object), hook["name"]));
            }
            if pods && !out {
                broken.push(format!("{}: {} sees our own pods", name(object), hook["name"]));
            }
        }
    }
    broken
}

/// Bindings bind accounts that pods run as, and pods run as accounts that are there.
pub fn accounts(rendered: &Rendered) -> Vec<String> {
    let account = |namespace: &Value, name: &Value| format!("{namespace}:{name}");
    let there: BTreeSet<String> = rendered
        .of("ServiceAccount")
        .map(|one| account(&one["metadata"]["namespace"], &one["metadata"]["name"]))
        .collect();
    let owners = rendered.of("Deployment").chain(rendered.of("DaemonSet"));
    let used: BTreeSet<String> = owners
        .map(|one| {
            let spec = &one["spec"]["template"]["spec"];
            account(&one["metadata"]["namespace"], &spec["serviceAccountName"])
        })
        .collect();
    let bindings = rendered.of("ClusterRoleBinding").chain(rendered.of("RoleBinding"));
    let bound: BTreeSet<String> = bindings
        .flat_map(|one| items(&one["subjects"]))
        .map(|one| account(&one["namespace"], &one["name"]))
        .collect();
    let mut broken = Vec::new();
    for (what, set) in [("an account without pods", &there), ("a binding of nobody", &bound)] {
        let odd = set.symmetric_difference(&used);
        broken.extend(odd.map(|account| format!("{account}: {what}, or the other way round")));
    }
    broken
}

/// Flags that need permissions of their own, and the ClusterRole that has them: neither is there without the other.
const SWITCHED: [(&str, &str); 1] =
    [("--leader-worker-sets=true", "muster-coordinator-leader-worker-sets")];

/// The coordinator has the permissions of what its flags switch on, and those alone.
pub fn switched(rendered: &Rendered) -> Vec<String> {
    let pods = templates(rendered);
    let containers = pods.iter().flat_map(|pod| items(&pod["spec"]["containers"]));
    let words: Vec<String> =
        containers.flat_map(|container| pods::words(container, "coordinator")).collect();
    let mut broken = Vec::new();
    for (flag, role) in SWITCHED {
        let on = words.iter().any(|word| word == flag);
        for kind in ["ClusterRole", "ClusterRoleBinding"] {
            if rendered.get(kind, role).is_some() != on {
                broken.push(format!("{kind} {role}: it should be there with {flag} and only then"));
            }
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(flags: &str, roles: &[&str]) -> Rendered {
        let mut text = format!(
            "{{kind: Deployment, spec: {{template: {{spec: {{containers: [{{name: coordinator, args: [{flags}]}}]}}}}}}}}"
        );
        for kind in roles {
            text += &format!(
                "\n---\n{{kind: {kind}, metadata: {{name: muster-coordinator-leader-worker-sets}}}}"
            );
        }
        Rendered::read(&text).unwrap()
    }

    #[test]
    fn a_flag_and_its_permissions_come_together() {
        let (on, both) = ("--leader-worker-sets=true", ["ClusterRole", "ClusterRoleBinding"]);
        for (flags, roles, broken) in [
            ("", &both[..0], 0),
            (on, &both[..], 0),
            (on, &both[..1], 1),
            (on, &both[..0], 2),
            ("", &both[..], 2),
        ] {
            assert_eq!(switched(&rendered(flags, roles)).len(), broken, "{flags} {roles:?}");
        }
    }
}
