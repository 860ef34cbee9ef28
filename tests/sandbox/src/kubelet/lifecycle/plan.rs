//! What a pod's spec and annotations say about its life.

use std::time::Duration;

use muster_objects::meta;
use serde_json::Value;

use super::super::names;
use super::{command, list, text};

/// A pod's life as it is meant to go.
#[derive(Clone, Debug, PartialEq)]
pub struct PodPlan {
    /// Init containers first, in the order of the spec.
    pub containers: Vec<ContainerPlan>,
    /// The pod's `spec.restartPolicy`.
    pub restart: RestartPolicy,
    /// From the start of a container to its running.
    pub start: Duration,
    /// What a container needs to end.
    pub stop: Duration,
    /// The pod's `spec.terminationGracePeriodSeconds`.
    pub grace: Duration,
    /// The pod's `spec.activeDeadlineSeconds`.
    pub active_deadline: Option<Duration>,
    /// Whether running containers count as ready.
    pub ready: bool,
}

/// One container as it is meant to go.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerPlan {
    /// Name of the container.
    pub name: String,
    /// Its place in the pod.
    pub kind: Kind,
    /// What it does.
    pub work: Work,
    /// Its image, if that does not exist.
    pub missing_image: Option<String>,
}

/// The place of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Runs to its end before the next starts.
    Init,
    /// An init container with `restartPolicy: Always`: stays beside the others.
    Sidecar,
    /// One of `spec.containers`.
    Main,
}

/// What a container does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Nothing but to run so long (or until stopped) and end with that code.
    Simulated {
        /// How long; `None`: until stopped.
        run: Option<Duration>,
        /// Its exit code.
        code: i32,
    },
    /// A closure or a process, which says itself when it ends.
    Outside,
}

/// The values of `spec.restartPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Whatever the exit code.
    Always,
    /// After a non-zero exit code.
    OnFailure,
    /// Not at all.
    Never,
}

// === impl Kind ===

impl Kind {
    /// Whether a container that ended with `code` starts again.
    pub fn restarts(self, policy: RestartPolicy, code: i32) -> bool {
        match (self, policy) {
            (Self::Sidecar, _) => true,
            (Self::Init, RestartPolicy::Never) | (Self::Main, RestartPolicy::Never) => false,
            (Self::Init, _) | (Self::Main, RestartPolicy::OnFailure) => code != 0,
            (Self::Main, RestartPolicy::Always) => true,
        }
    }
}

// === impl PodPlan ===

impl PodPlan {
    /// Reads the plan of a pod; `outside` tells which containers are closures or processes.
    pub fn read(pod: &Value, outside: impl Fn(&str) -> bool) -> Self {
        let spec = pod.get("spec").unwrap_or(&Value::Null);
        let restart = match text(spec, "restartPolicy") {
            "Never" => RestartPolicy::Never,
            "OnFailure" => RestartPolicy::OnFailure,
            _ => RestartPolicy::Always,
        };
        let code = meta::annotation(pod, names::EXIT_CODE).and_then(|c| c.trim().parse().ok());
        let failing = meta::annotation(pod, names::FAIL_CONTAINER).filter(|name| !name.is_empty());
        let of_job = meta::owners(pod).iter().any(|owner| text(owner, "kind") == "Job");
        let annotated = seconds(pod, names::RUN_SECONDS);
        let of_job = (of_job && restart != RestartPolicy::Always)
            .then_some(Duration::from_secs(names::JOB_SECONDS));
        let code_of = |name: &str, kind: Kind, played: Option<i32>| match failing {
            Some(failing) if failing == name => code.unwrap_or(1),
            None if kind == Kind::Main => code.or(played).unwrap_or(0),
            None if kind == Kind::Init => played.unwrap_or(0),
            _ => 0,
        };
        let container = |container: &Value, kind: Kind| {
            let name = text(container, "name").to_owned();
            // What the pod says of itself counts more than what its command says.
            let played = command::read(container);
            let run = annotated.or(match played {
                Some(played) => played.run,
                None => of_job,
            });
            let run = match kind {
                Kind::Init => played.map_or(Some(Duration::ZERO), |played| played.run),
                // One that is to fail does so after the pod's run time.
                Kind::Sidecar => run.filter(|_| failing == Some(&name)),
                Kind::Main => run.or((failing == Some(&name)).then_some(Duration::ZERO)),
            };
            let work = match outside(&name) {
                true => Work::Outside,
                false => {
                    let code = code_of(&name, kind, played.map(|played| played.code));
                    Work::Simulated { run, code }
                }
            };
            ContainerPlan { name, kind, work, missing_image: None }
        };
        let init = list(spec, "initContainers").iter().map(|c| {
            let sidecar = text(c, "restartPolicy") == "Always";
            container(c, if sidecar { Kind::Sidecar } else { Kind::Init })
        });
        let main = list(spec, "containers").iter().map(|c| container(c, Kind::Main));
        let whole = |field: &str| spec.get(field).and_then(Value::as_u64).map(Duration::from_secs);
        Self {
            containers: init.chain(main).collect(),
            restart,
            start: seconds(pod, names::START_SECONDS).unwrap_or_default(),
            stop: seconds(pod, names::STOP_SECONDS).unwrap_or_else(|| pre_stop(spec)),
            grace: whole("terminationGracePeriodSeconds").unwrap_or(Duration::from_secs(30)),
            active_deadline: whole("activeDeadlineSeconds"),
            ready: meta::annotation(pod, names::NOT_READY) != Some("true"),
        }
    }

    /// The same plan where images for which `missing` holds do not exist.
    pub fn without_images(mut self, pod: &Value, missing: impl Fn(&str) -> bool) -> Self {
        let spec = pod.get("spec").unwrap_or(&Value::Null);
        for container in ["initContainers", "containers"].iter().flat_map(|of| list(spec, of)) {
            let image = text(container, "image");
            let name = text(container, "name");
            let planned = self.containers.iter_mut().find(|planned| planned.name == name);
            if let Some(planned) = planned.filter(|_| missing(image)) {
                planned.missing_image = Some(image.to_owned());
            }
        }
        self
    }
}

/// What the longest `preStop` hook takes: the seconds that it sleeps, or one where it runs or calls something.
fn pre_stop(spec: &Value) -> Duration {
    let hooks = list(spec, "containers").iter().filter_map(|it| it.pointer("/lifecycle/preStop"));
    let longest = hooks.map(|hook| match hook.get("sleep") {
        Some(sleep) => sleep.get("seconds").and_then(Value::as_u64).unwrap_or_default(),
        None => names::HOOK_SECONDS,
    });
    Duration::from_secs(longest.max().unwrap_or_default())
}

/// An annotation in seconds, with fractions; what is no such number counts as absent.
fn seconds(pod: &Value, name: &str) -> Option<Duration> {
    let value: f64 = meta::annotation(pod, name)?.trim().parse().ok()?;
    Duration::try_from_secs_f64(value).ok()
}
