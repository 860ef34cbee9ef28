//! Containers of the chart: their arguments, their confinement, their mounts.

use std::collections::BTreeSet;

use clap::Parser;
use serde_json::{Value, json};

use super::{Rendered, items, name};

/// The objects that have pods, with the pods' specs.
fn specs(rendered: &Rendered) -> impl Iterator<Item = (&Value, &Value)> {
    ["Deployment", "DaemonSet"]
        .into_iter()
        .flat_map(|kind| rendered.of(kind))
        .map(|one| (one, &one["spec"]["template"]["spec"]))
}

/// The arguments of a container, after its program's name.
pub fn words(container: &Value, program: &str) -> Vec<String> {
    let words = items(&container["args"]).map(|word| word.as_str().unwrap_or_default().to_owned());
    std::iter::once(program.to_owned()).chain(words).collect()
}

/// Each program reads its own command line, as it would when it starts.
pub fn arguments(rendered: &Rendered) -> Vec<String> {
    let mut broken = Vec::new();
    for (object, spec) in specs(rendered) {
        for container in items(&spec["containers"]) {
            let read = match container["name"].as_str() {
                Some("coordinator") => {
                    let words = words(container, "muster-coordinator");
                    muster_coordinator::args::Args::try_parse_from(words).map(drop)
                }
                Some("agent") => {
                    // The chart gives the node's name by its environment.
                    let mut words = words(container, "muster-agent");
                    let given = items(&container["env"]).any(|env| env["name"] == "NODE_NAME");
                    words.extend(given.then(|| "--node=any".to_owned()));
                    muster_agent::args::Args::try_parse_from(words).map(drop)
                }
                _ => {
                    broken.push(format!("{}: an unknown container", name(object)));
                    continue;
                }
            };
            broken.extend(read.err().map(|error| format!("{}: {error}", name(object))));
        }
    }
    broken
}

/// No container has more than it needs. Privileged is the agent alone, and only to run the vendors' tools.
pub fn free(rendered: &Rendered) -> Vec<String> {
    let mut broken = Vec::new();
    for (object, spec) in specs(rendered) {
        let mut want = |holds: bool, what: &str| {
            if !holds {
                broken.push(format!("{}: {what}", name(object)));
            }
        };
        let agent = object["kind"] == "DaemonSet";
        want(
            spec["hostPID"].is_null() && spec["hostIPC"].is_null(),
            "it sees processes of the node",
        );
        let pod = &spec["securityContext"];
        if !agent {
            want(pod["runAsNonRoot"] == true, "it may run as root");
        }
        for container in items(&spec["containers"]) {
            let own = &container["securityContext"];
            let tools = agent && !words(container, "").contains(&"--no-tools".to_owned());
            want(own["readOnlyRootFilesystem"] == true, "it may write to its image");
            want(own["privileged"].is_null() || tools, "it is privileged");
            if !tools {
                want(
                    pod["seccompProfile"]["type"] == "RuntimeDefault",
                    "it has no seccomp profile",
                );
                want(own["allowPrivilegeEscalation"] == false, "it may gain privileges");
                want(own["capabilities"]["drop"] == json!(["ALL"]), "it keeps capabilities");
                let added = if agent { json!(["CHOWN"]) } else { Value::Null };
                want(
                    own["capabilities"]["add"] == added,
                    "it has capabilities that it does not need",
                );
            }
            want(container["livenessProbe"].is_object(), "it has no liveness probe");
            want(container["readinessProbe"].is_object(), "it has no readiness probe");
            let image = container["image"].as_str().unwrap_or_default();
            want(image.contains(':') && !image.ends_with(":latest"), "its image has no version");
        }
    }
    broken
}

/// What is mounted is there, and nothing is there for nobody. Of the node, only pods' volumes and the agent's own state are
/// mounted to be written.
pub fn mounts(rendered: &Rendered) -> Vec<String> {
    let mut broken = Vec::new();
    for (object, spec) in specs(rendered) {
        let names = |list: &Value| -> BTreeSet<String> {
            items(list).map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect()
        };
        let volumes = names(&spec["volumes"]);
        let mut mounted = BTreeSet::new();
        for container in items(&spec["containers"]) {
            mounted.extend(names(&container["volumeMounts"]));
            for mount in items(&container["volumeMounts"]) {
                let ours = ["pods", "state"].iter().any(|name| mount["name"] == *name);
                if mount["readOnly"] != true && !ours {
                    broken.push(format!("{}: {} may be written", name(object), mount["mountPath"]));
                }
            }
        }
        for odd in volumes.symmetric_difference(&mounted) {
            broken
                .push(format!("{}: volume {odd} has no mount, or a mount no volume", name(object)));
        }
    }
    broken
}
