//! The life of one pod on a node, as a state machine without I/O.
//!
//! [`PodRun`] holds what the node knows of the pod; [`PodRun::step`] takes it as far as the given time
//! allows and says what has to be done; [`status`] writes what the API shall show of it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

mod command;
mod container;
pub mod plan;
pub mod resume;
pub mod status;
#[cfg(test)]
mod tests;

pub use plan::{ContainerPlan, Kind, PodPlan, RestartPolicy, Work};

/// A pod on this node.
#[derive(Clone, Debug, PartialEq)]
pub struct PodRun {
    /// When the node took the pod.
    pub started: Timestamp,
    /// The pod's address, once its network is there.
    pub ip: Option<String>,
    /// Whether volumes and network are there, so that containers may start.
    pub prepared: bool,
    /// Why preparing does not get on.
    pub blocked: Option<Blocked>,
    /// Init containers first, in the order of the spec.
    pub containers: Vec<ContainerRun>,
    /// Set when the pod shall end: by deletion, by its deadline or on rejection.
    pub ending: Option<Ending>,
}

/// Why containers cannot be created yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocked {
    /// As in `state.waiting.reason`.
    pub reason: String,
    /// Why the container waits, as a sentence.
    pub message: String,
}

/// Why and until when a pod ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// After this, containers are killed.
    pub kill_at: Timestamp,
    /// `status.reason` and `status.message` of a pod that fails by this.
    pub failure: Option<(String, String)>,
}

/// One container of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerRun {
    /// Name of the container.
    pub name: String,
    /// Where it is.
    pub state: State,
    /// How it ended the last time.
    pub last: Option<ContainerEnd>,
    /// How often it was started again.
    pub restarts: u32,
    /// Ends in a row that were followed by a start; they make the back-off longer.
    pub crashes: u32,
    /// Whether it was told to stop.
    pub stopping: bool,
}

/// Where a container is.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// The container has not started.
    Waiting,
    /// Being created; runs at that time.
    Starting(Timestamp),
    /// Running, and ending by itself at a time when it is simulated.
    Running {
        /// When it started.
        since: Timestamp,
        /// When it ends by itself.
        until: Option<Timestamp>,
    },
    /// It has ended.
    Ended(ContainerEnd),
    /// Waiting for its next start.
    BackOff {
        /// When it starts again.
        until: Timestamp,
        /// How long it waits in all.
        delay: Duration,
    },
    /// Its image could not be pulled.
    NoImage {
        /// When the next thing happens: a pause after a failure, or the next attempt after a pause.
        until: Timestamp,
        /// How often the pull has failed.
        failures: u32,
        /// Whether it pauses now.
        pausing: bool,
    },
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerEnd {
    /// Its exit code.
    pub code: i32,
    /// When it started.
    pub since: Timestamp,
    /// When it ended.
    pub at: Timestamp,
    /// Which start this was, from 0.
    pub attempt: u32,
}

/// What the edge has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Start the container's closure or process.
    Start {
        /// Name of the container.
        container: String,
        /// Which start this is, from 0.
        attempt: u32,
    },
    /// Tell the container's closure or process to end, and kill it at that time.
    Stop {
        /// Name of the container.
        container: String,
        /// When its patience ends.
        kill_at: Timestamp,
    },
    /// A line for the container's log.
    Log {
        /// Name of the container.
        container: String,
        /// Without the newline.
        line: String,
    },
}

/// What happened outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// Volumes and network are there.
    Prepared {
        /// The pod's address.
        ip: String,
    },
    /// They are not, and this is why.
    Blocked(Blocked),
    /// A closure or process ended.
    Exited {
        /// Name of the container.
        container: String,
        /// Which start it was.
        attempt: u32,
        /// Its exit code.
        code: i32,
    },
    /// The pod shall end, with so much time for its containers.
    End {
        /// From now until they are killed.
        grace: Duration,
        /// Reason and message when the pod fails by it.
        failure: Option<(String, String)>,
    },
}

// === impl PodRun ===

impl PodRun {
    /// A pod that the node just took.
    pub fn new(plan: &PodPlan, now: Timestamp) -> Self {
        let containers = plan.containers.iter().map(|c| ContainerRun::new(&c.name)).collect();
        Self { started: now, ip: None, prepared: false, blocked: None, containers, ending: None }
    }

    /// Takes in what happened and goes as far as `now` allows.
    pub fn step(&mut self, plan: &PodPlan, input: Input, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Tick => {}
            Input::Prepared { ip } => {
                self.ip = Some(ip);
                self.prepared = true;
                self.blocked = None;
            }
            Input::Blocked(blocked) => self.blocked = Some(blocked),
            Input::Exited { container, attempt, code } => {
                let run = self.containers.iter_mut().find(|c| c.name == container);
                if let Some(run) = run.filter(|c| c.restarts == attempt) {
                    run.end(code, now, &mut effects);
                }
            }
            Input::End { grace, failure } => self.end(grace, failure, now),
        }
        if let (None, Some(limit)) = (&self.ending, plan.active_deadline)
            && now >= later(self.started, limit)
            && !self.is_finished(plan)
        {
            let message = "Pod was active on the node longer than the specified deadline";
            let failure = Some(("DeadlineExceeded".to_owned(), message.to_owned()));
            self.end(plan.grace, failure, now);
        }
        // Each round moves at least one container on, so this ends.
        while self.round(plan, now, &mut effects) {}
        effects
    }

    /// When [`PodRun::step`] should be called next, if nothing else happens.
    pub fn next_time(&self, plan: &PodPlan) -> Option<Timestamp> {
        let mut times: Vec<Timestamp> = self
            .containers
            .iter()
            .filter_map(|c| match c.state {
                State::Starting(at) => Some(at),
                State::Running { until, .. } => until,
                State::BackOff { until, .. } | State::NoImage { until, .. }
                    if self.ending.is_none() =>
                {
                    Some(until)
                }
                _ => None,
            })
            .collect();
        if let (None, Some(limit), false) =
            (&self.ending, plan.active_deadline, self.is_finished(plan))
        {
            times.push(later(self.started, limit));
        }
        times.into_iter().min()
    }

    /// Whether nothing runs and nothing will start again.
    pub fn is_finished(&self, plan: &PodPlan) -> bool {
        if self.containers.iter().any(ContainerRun::is_alive) {
            return false;
        }
        self.ending.is_some() || self.is_decided(plan)
    }

    /// Whether the restart policy lets nothing start again: an init container failed for good, or
    /// every main container ended for good. Sidecars may still run.
    pub fn is_decided(&self, plan: &PodPlan) -> bool {
        let mut mains_done = true;
        for (run, container) in self.containers.iter().zip(&plan.containers) {
            let restarts = |code: i32| container.kind.restarts(plan.restart, code);
            match (container.kind, &run.state) {
                (Kind::Sidecar, _) => {}
                (Kind::Init, State::Ended(e)) if e.code != 0 && !restarts(e.code) => return true,
                (Kind::Init, _) => {}
                (Kind::Main, State::Ended(e)) => mains_done &= !restarts(e.code),
                (Kind::Main, _) => mains_done = false,
            }
        }
        mains_done
    }

    /// Whether every init container did its work.
    pub fn is_initialized(&self, plan: &PodPlan) -> bool {
        self.containers.iter().zip(&plan.containers).all(|(run, container)| match container.kind {
            Kind::Init => matches!(&run.state, State::Ended(e) if e.code == 0),
            Kind::Sidecar => run.is_running() || run.restarts > 0,
            Kind::Main => true,
        })
    }

    fn end(&mut self, grace: Duration, failure: Option<(String, String)>, now: Timestamp) {
        let kill_at = later(now, grace);
        match &mut self.ending {
            // A second, shorter notice counts; a longer one does not.
            Some(ending) => ending.kill_at = ending.kill_at.min(kill_at),
            None => self.ending = Some(Ending { kill_at, failure }),
        }
    }

    /// Moves containers on by one state each; whether any moved.
    fn round(&mut self, plan: &PodPlan, now: Timestamp, effects: &mut Vec<Effect>) -> bool {
        let mut moved = false;
        let decided = self.is_decided(plan);
        let mains_alive = self
            .containers
            .iter()
            .zip(&plan.containers)
            .any(|(run, container)| container.kind != Kind::Sidecar && run.is_alive());
        // Set to the first init container that is not through: nothing after it may start.
        let mut held = !self.prepared;
        for (run, container) in self.containers.iter_mut().zip(&plan.containers) {
            let stop_at = match &self.ending {
                // Sidecars end after the others, or when time is up.
                Some(ending) if container.kind == Kind::Sidecar && mains_alive => {
                    (now >= ending.kill_at).then_some(ending.kill_at)
                }
                Some(ending) => Some(ending.kill_at),
                None if decided && container.kind == Kind::Sidecar && !mains_alive => {
                    Some(later(now, plan.grace))
                }
                None => None,
            };
            if let Some(kill_at) = stop_at {
                moved |= run.stop(container, plan, kill_at, now, effects);
            }
            moved |= run.go_on(container, now, effects);
            if self.ending.is_none() && !decided && !held {
                moved |= run.start(container, plan, now, effects);
            }
            held |= match container.kind {
                Kind::Init => !matches!(&run.state, State::Ended(e) if e.code == 0),
                Kind::Sidecar => !(run.is_running() || run.restarts > 0),
                Kind::Main => false,
            };
        }
        moved
    }
}

/// `time` plus `wait`, or the end of time.
pub(super) fn later(time: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    time.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

/// `value.<field>` as a list.
pub(super) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// `value.<field>` as text, empty when absent.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or("")
}
