//! The status of a pod, written as a real kubelet writes it.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{ContainerEnd, ContainerRun, Kind, PodPlan, PodRun, State, list, text};
use crate::clock::seconds;

/// Conditions that the kubelet writes; all others belong to somebody else.
pub const OWN_CONDITIONS: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

struct Condition {
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
}

/// The status of `pod`, to be merged strategically into the one that it has.
///
/// `before` is the status last written or read: conditions that stay as they are keep their time.
pub fn write(
    pod: &Value,
    plan: &PodPlan,
    run: &PodRun,
    host_ip: &str,
    before: &Value,
    now: Timestamp,
) -> Value {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let uid = muster_objects::meta::uid(pod);
    let phase = phase(plan, run, text(before, "phase"));
    let statuses = |wanted: fn(Kind) -> bool, field: &str| -> Vec<Value> {
        let of_kind = run.containers.iter().zip(&plan.containers);
        let mut all: Vec<Value> = of_kind
            .filter(|(_, container)| wanted(container.kind))
            .map(|(c, container)| {
                let same_name = list(spec, field).iter().find(|s| text(s, "name") == c.name);
                let spec = same_name.unwrap_or(&Value::Null);
                container_status(uid, spec, container.kind, c, run, plan)
            })
            .collect();
        if field == "containers" {
            all.sort_by(|a, b| text(a, "name").cmp(text(b, "name")));
        }
        all
    };
    let init = statuses(|kind| kind != Kind::Main, "initContainers");
    let main = statuses(|kind| kind == Kind::Main, "containers");
    let generation = pod.pointer("/metadata/generation").and_then(Value::as_i64);

    let mut status = Map::new();
    if let Some(generation) = generation {
        status.insert("observedGeneration".into(), generation.into());
    }
    status.insert("phase".into(), phase.into());
    let failure = run.ending.as_ref().and_then(|ending| ending.failure.as_ref());
    if let Some((reason, message)) = failure.filter(|_| phase == "Failed") {
        status.insert("reason".into(), reason.as_str().into());
        status.insert("message".into(), message.as_str().into());
    }
    let conditions = conditions(pod, plan, run, phase, &init, &main);
    let conditions = conditions.iter().map(|c| c.write(before, generation, now)).collect();
    status.insert("conditions".into(), Value::Array(conditions));
    status.insert("hostIP".into(), host_ip.into());
    status.insert("hostIPs".into(), json!([{ "ip": host_ip }]));
    let own_network = spec.get("hostNetwork") != Some(&Value::Bool(true));
    if let Some(ip) = if own_network { run.ip.as_deref() } else { Some(host_ip) } {
        status.insert("podIP".into(), ip.into());
        status.insert("podIPs".into(), json!([{ "ip": ip }]));
    }
    status.insert("startTime".into(), seconds(run.started).into());
    if !init.is_empty() {
        status.insert("initContainerStatuses".into(), init.into());
    }
    status.insert("containerStatuses".into(), main.into());
    Value::Object(status)
}

/// The status of a pod that the node refused.
pub fn refused(pod: &Value, reason: &str, message: &str, now: Timestamp) -> Value {
    let mut status = json!({
        "phase": "Failed",
        "reason": reason,
        "message": format!("Pod was rejected: {message}"),
        "startTime": seconds(now),
    });
    if let Some(generation) = pod.pointer("/metadata/generation") {
        status["observedGeneration"] = generation.clone();
    }
    status
}

/// `status.phase`; one that is final stays.
pub fn phase(plan: &PodPlan, run: &PodRun, before: &str) -> &'static str {
    match before {
        "Succeeded" => return "Succeeded",
        "Failed" => return "Failed",
        _ => {}
    }
    let ended_by_node = run.ending.as_ref().is_some_and(|ending| ending.failure.is_some());
    if ended_by_node {
        return "Failed";
    }
    let (mut running, mut waiting, mut stopped, mut failed) = (0, 0, 0, 0);
    let mut initializing = false;
    for (c, container) in run.containers.iter().zip(&plan.containers) {
        let ran = c.last.is_some();
        match (container.kind, &c.state) {
            (Kind::Init, State::Ended(e)) if e.code == 0 => {}
            (Kind::Init, State::Ended(e)) if !Kind::Init.restarts(plan.restart, e.code) => {
                return "Failed";
            }
            (Kind::Init, _) => initializing = true,
            (Kind::Sidecar, State::Running { .. }) => running += 1,
            (Kind::Sidecar, State::Ended(_)) => {}
            (Kind::Sidecar, _) if ran => {}
            (Kind::Sidecar, _) => initializing = true,
            (Kind::Main, State::Running { .. }) => running += 1,
            (Kind::Main, State::Ended(e)) => {
                stopped += 1;
                failed += usize::from(e.code != 0);
            }
            (Kind::Main, _) if ran => stopped += 1,
            (Kind::Main, _) => waiting += 1,
        }
    }
    match () {
        () if initializing || waiting > 0 => "Pending",
        () if running > 0 => "Running",
        () if !run.is_finished(plan) => "Running",
        () if failed == 0 && stopped > 0 => "Succeeded",
        () => "Failed",
    }
}

fn conditions(
    pod: &Value,
    plan: &PodPlan,
    run: &PodRun,
    phase: &str,
    init: &[Value],
    main: &[Value],
) -> Vec<Condition> {
    let is = |status: &Value, field: &str| status.get(field) == Some(&Value::Bool(true));
    let kind = |name: &str| plan.containers.iter().find(|c| c.name == name).map(|c| c.kind);
    let incomplete: Vec<&str> = init
        .iter()
        .filter(|s| match kind(text(s, "name")) {
            Some(Kind::Sidecar) => !is(s, "started"),
            _ => !is(s, "ready"),
        })
        .map(|s| text(s, "name"))
        .collect();
    let any_main_ran = run.containers.iter().zip(&plan.containers).any(|(c, container)| {
        container.kind == Kind::Main
            && (c.last.is_some() || matches!(c.state, State::Running { .. } | State::Ended(_)))
    });
    let initialized = match () {
        () if phase == "Succeeded" => Condition::yes("Initialized").because("PodCompleted"),
        () if any_main_ran || incomplete.is_empty() => Condition::yes("Initialized"),
        () => Condition::no("Initialized")
            .because("ContainersNotInitialized")
            .saying(format!("containers with incomplete status: [{}]", incomplete.join(" "))),
    };
    let spec_order = plan.containers.iter().filter(|c| c.kind != Kind::Init);
    let unready: Vec<&str> = spec_order
        .map(|c| c.name.as_str())
        .filter(|name| {
            let status = init.iter().chain(main).find(|s| text(s, "name") == *name);
            !status.is_some_and(|s| is(s, "ready"))
        })
        .collect();
    let ready = |condition: &'static str| match phase {
        "Succeeded" => Condition::no(condition).because("PodCompleted"),
        "Failed" => Condition::no(condition).because("PodFailed"),
        _ if unready.is_empty() => Condition::yes(condition),
        _ => Condition::no(condition)
            .because("ContainersNotReady")
            .saying(format!("containers with unready status: [{}]", unready.join(" "))),
    };
    let mut pod_ready = ready("Ready");
    let gates = unmet_gates(pod);
    if pod_ready.holds && !gates.is_empty() {
        pod_ready =
            Condition::no("Ready").because("ReadinessGatesNotReady").saying(gates.join(", "));
    }
    let network = run.prepared && !run.is_finished(plan);
    let network = if network { Condition::yes } else { Condition::no };
    vec![
        network("PodReadyToStartContainers"),
        initialized,
        pod_ready,
        ready("ContainersReady"),
        Condition::yes("PodScheduled"),
    ]
}

fn unmet_gates(pod: &Value) -> Vec<String> {
    let conditions = pod.get("status").map(|s| list(s, "conditions")).unwrap_or_default();
    let gates = pod.get("spec").map(|s| list(s, "readinessGates")).unwrap_or_default();
    gates
        .iter()
        .filter_map(|gate| {
            let name = text(gate, "conditionType");
            let found = conditions.iter().find(|c| text(c, "type") == name);
            match found.map(|c| text(c, "status")) {
                None => Some(format!(
                    "corresponding condition of pod readiness gate \"{name}\" does not exist."
                )),
                Some("True") => None,
                Some(other) => Some(format!(
                    "the status of pod readiness gate \"{name}\" is not \"True\", but {other}"
                )),
            }
        })
        .collect()
}

fn container_status(
    uid: &str,
    spec: &Value,
    kind: Kind,
    c: &ContainerRun,
    run: &PodRun,
    plan: &PodPlan,
) -> Value {
    let running = c.is_running();
    let ready = match kind {
        Kind::Init => matches!(&c.state, State::Ended(e) if e.code == 0),
        _ => running && plan.ready && !c.stopping,
    };
    let has_init = plan.containers.iter().any(|c| c.kind != Kind::Main);
    // Before the first init container starts, all show what holds the pod up.
    let waiting = match &run.blocked {
        Some(blocked) if blocked.reason != "ContainerCreating" => {
            json!({ "waiting": { "reason": blocked.reason, "message": blocked.message } })
        }
        _ if has_init && !(kind == Kind::Main && run.is_initialized(plan)) => {
            json!({ "waiting": { "reason": "PodInitializing" } })
        }
        _ => json!({ "waiting": { "reason": "ContainerCreating" } }),
    };
    let attempt = match &c.state {
        State::Running { .. } => Some(c.restarts),
        State::Ended(e) => Some(e.attempt),
        _ => c.last.as_ref().map(|last| last.attempt),
    };
    let state = match &c.state {
        State::Waiting => waiting,
        // A restart shows the end before it until it runs.
        State::Starting(_) => match &c.last {
            Some(last) => terminated(uid, c, last),
            None => waiting,
        },
        State::Running { since, .. } => json!({ "running": { "startedAt": seconds(*since) } }),
        State::Ended(ended) => terminated(uid, c, ended),
        State::BackOff { delay, .. } => json!({ "waiting": {
            "reason": "CrashLoopBackOff",
            "message": format!("back-off {} restarting failed container={} pod={}", go_seconds(*delay), c.name, uid),
        } }),
        State::NoImage { pausing, .. } => no_image(text(spec, "image"), *pausing),
    };
    let mut status = Map::new();
    let image = text(spec, "image");
    status.insert("name".into(), c.name.as_str().into());
    status.insert("state".into(), state);
    let last = match (&c.state, &c.last) {
        (State::Starting(_), _) | (_, None) => json!({}),
        (_, Some(last)) => terminated(uid, c, last),
    };
    status.insert("lastState".into(), last);
    status.insert("ready".into(), ready.into());
    status.insert("restartCount".into(), c.restarts.into());
    status.insert("image".into(), image.into());
    let id = attempt.map(|attempt| container_id(uid, &c.name, attempt));
    let pulled = id.as_ref().map(|_| image_id(image)).unwrap_or_default();
    status.insert("imageID".into(), pulled.into());
    if let Some(id) = id {
        status.insert("containerID".into(), id.into());
    }
    status.insert("started".into(), (kind != Kind::Init && running).into());
    Value::Object(status)
}

fn no_image(image: &str, pausing: bool) -> Value {
    let error = format!("failed to pull and unpack image \"{image}\": not found");
    let (reason, message) = match pausing {
        true => {
            let message = format!("Back-off pulling image \"{image}\": ErrImagePull: {error}");
            ("ImagePullBackOff", message)
        }
        false => ("ErrImagePull", error),
    };
    json!({ "waiting": { "reason": reason, "message": message } })
}

fn terminated(uid: &str, c: &ContainerRun, ended: &ContainerEnd) -> Value {
    json!({ "terminated": {
        "exitCode": ended.code,
        "reason": if ended.code == 0 { "Completed" } else { "Error" },
        "startedAt": seconds(ended.since),
        "finishedAt": seconds(ended.at),
        "containerID": container_id(uid, &c.name, ended.attempt),
    } })
}

/// The same container has the same id each time one asks.
pub fn container_id(uid: &str, container: &str, attempt: u32) -> String {
    format!("containerd://{}", hex(&format!("{uid}/{container}/{attempt}")))
}

fn image_id(image: &str) -> String {
    let repository = match image.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => image,
    };
    match image.split_once('@') {
        Some(_) => image.to_owned(),
        None => format!("{repository}@sha256:{}", hex(image)),
    }
}

fn hex(of: &str) -> String {
    Sha256::digest(of).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whole seconds as Go prints them: `10s`, `2m40s`, `5m0s`.
fn go_seconds(delay: std::time::Duration) -> String {
    match delay.as_secs() {
        s if s < 60 => format!("{s}s"),
        s => format!("{}m{}s", s / 60, s % 60),
    }
}

// === impl Condition ===

impl Condition {
    fn yes(kind: &'static str) -> Self {
        Self { kind, holds: true, reason: "", message: String::new() }
    }

    fn no(kind: &'static str) -> Self {
        Self { holds: false, ..Self::yes(kind) }
    }

    fn because(self, reason: &'static str) -> Self {
        Self { reason, ..self }
    }

    fn saying(self, message: String) -> Self {
        Self { message, ..self }
    }

    fn write(&self, before: &Value, generation: Option<i64>, now: Timestamp) -> Value {
        let status = if self.holds { "True" } else { "False" };
        let old = list(before, "conditions").iter().find(|c| text(c, "type") == self.kind);
        let kept = old.filter(|old| text(old, "status") == status);
        let since = kept.map(|old| text(old, "lastTransitionTime")).filter(|t| !t.is_empty());
        let mut written = json!({
            "type": self.kind,
            "status": status,
            "lastProbeTime": null,
            "lastTransitionTime": since.map_or_else(|| seconds(now), str::to_owned),
        });
        if let Some(generation) = generation {
            written["observedGeneration"] = generation.into();
        }
        for (field, value) in [("reason", self.reason), ("message", &self.message)] {
            if !value.is_empty() {
                written[field] = value.into();
            } else if old.is_some_and(|old| !text(old, field).is_empty()) {
                // The merge would keep what is no longer said.
                written[field] = Value::Null;
            }
        }
        written
    }
}
