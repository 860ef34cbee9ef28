//! A pod's run as a restarted kubelet reads it back from the API.

use jiff::Timestamp;
use serde_json::Value;

use super::{ContainerEnd, ContainerRun, PodPlan, PodRun, State, Work, later, list, text};

impl PodRun {
    /// What `pod.status` says of the run, or `None` when no kubelet has taken the pod yet.
    ///
    /// A simulated container goes on from where it was; `alive` tells whether a closure or process
    /// still runs. One that does not, and whose end nobody saw, counts as killed.
    pub fn resume(
        pod: &Value,
        plan: &PodPlan,
        alive: impl Fn(&str) -> bool,
        now: Timestamp,
    ) -> Option<Self> {
        let status = pod.get("status")?;
        let started = time(status, "startTime")?;
        let statuses = || {
            let init = list(status, "initContainerStatuses").iter();
            init.chain(list(status, "containerStatuses"))
        };
        let containers: Vec<ContainerRun> = plan
            .containers
            .iter()
            .map(|container| {
                let found = statuses().find(|s| text(s, "name") == container.name);
                let mut run = ContainerRun::new(&container.name);
                if let Some(found) = found {
                    run.read(found, container.work, now);
                }
                if let (State::Running { since, .. }, Work::Outside) = (&run.state, container.work)
                    && !alive(&container.name)
                {
                    run.state = State::Ended(ContainerEnd {
                        code: super::super::names::EXIT_KILLED,
                        since: *since,
                        at: now,
                        attempt: run.restarts,
                    });
                }
                run
            })
            .collect();
        let ip = Some(text(status, "podIP")).filter(|ip| !ip.is_empty()).map(str::to_owned);
        let any_started = containers.iter().any(|c| c.state != State::Waiting);
        let prepared = any_started && ip.is_some();
        Some(Self { started, ip, prepared, blocked: None, containers, ending: None })
    }
}

// === impl ContainerRun ===

impl ContainerRun {
    fn read(&mut self, status: &Value, work: Work, now: Timestamp) {
        let restarts = status.get("restartCount").and_then(Value::as_u64).unwrap_or(0);
        self.restarts = u32::try_from(restarts).unwrap_or(u32::MAX);
        self.last = status
            .pointer("/lastState/terminated")
            .and_then(|ended| read_end(ended, self.restarts.saturating_sub(1)));
        let Some(state) = status.get("state") else { return };
        if let Some(since) = state.get("running").and_then(|r| time(r, "startedAt")) {
            let until = match work {
                Work::Simulated { run, .. } => run.map(|run| later(since, run)),
                Work::Outside => None,
            };
            self.state = State::Running { since, until };
        } else if let Some(ended) = state.get("terminated") {
            if let Some(ended) = read_end(ended, self.restarts) {
                self.state = State::Ended(ended);
            }
        } else if self.last.is_some() {
            // It was in back-off: its time starts anew, as it does in a restarted kubelet.
            self.state = State::BackOff { until: now, delay: std::time::Duration::ZERO };
        }
    }
}

fn read_end(ended: &Value, attempt: u32) -> Option<ContainerEnd> {
    let code = ended.get("exitCode").and_then(Value::as_i64)?;
    let at = time(ended, "finishedAt")?;
    let since = time(ended, "startedAt").unwrap_or(at);
    Some(ContainerEnd { code: i32::try_from(code).unwrap_or(-1), since, at, attempt })
}

fn time(value: &Value, field: &str) -> Option<Timestamp> {
    text(value, field).parse().ok()
}
