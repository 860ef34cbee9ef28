//! The life of one pod on a node, as a state machine without I/O.
//!
//! [`PodRun`] holds what the node knows of the pod; [`PodRun::step`] takes it as far as the given time
//! allows and says what has to be done; [`status`] writes what the API shall show of it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::names;

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
    /// For people.
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
    /// Its name.
    pub name: String,
    /// Where it is.
    pub state: State,
    /// How it ended the last time.
    pub last: Option<Ended>,
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
    /// Not started.
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
    /// Ended.
    Ended(Ended),
    /// Waiting for its next start.
    BackOff {
        /// When it starts again.
        until: Timestamp,
        /// How long it waits in all.
        delay: Duration,
    },
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
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
        /// Its name.
        container: String,
        /// Which start this is, from 0.
        attempt: u32,
    },
    /// Tell the container's closure or process to end, and kill it at that time.
    Stop {
        /// Its name.
        container: String,
        /// When its patience ends.
        kill_at: Timestamp,
    },
    /// A line for the container's log.
    Log {
        /// Its name.
        container: String,
        /// Without the newline.
        line: String,
    },
}

/// What happened outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Time passed.
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
        /// Its name.
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

const FIRST_BACK_OFF: Duration = Duration::from_secs(10);
const LAST_BACK_OFF: Duration = Duration::from_secs(300);
/// A run of this length makes the back-off begin anew.
const FORGET_AFTER: SignedDuration = SignedDuration::from_mins(10);

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
                State::BackOff { until, .. } if self.ending.is_none() => Some(until),
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

// === impl ContainerRun ===

impl ContainerRun {
    fn new(name: &str) -> Self {
        let name = name.to_owned();
        Self { name, state: State::Waiting, last: None, restarts: 0, crashes: 0, stopping: false }
    }

    /// Whether it is running.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// Whether it is running or about to.
    pub fn is_alive(&self) -> bool {
        matches!(self.state, State::Running { .. } | State::Starting(_))
    }

    /// Starts it when it is its turn, or its turn again.
    fn start(
        &mut self,
        container: &ContainerPlan,
        plan: &PodPlan,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) -> bool {
        match &self.state {
            State::Waiting => {}
            State::BackOff { until, .. } if now >= *until => self.restarts += 1,
            State::Ended(ended) if container.kind.restarts(plan.restart, ended.code) => {
                if ended.since.duration_until(ended.at) > FORGET_AFTER {
                    self.crashes = 0;
                }
                let delay = back_off(self.crashes);
                let until = later(ended.at, delay);
                self.crashes += 1;
                self.last = Some(ended.clone());
                if now < until {
                    self.state = State::BackOff { until, delay };
                    return true;
                }
                self.restarts += 1;
            }
            _ => return false,
        }
        self.state = State::Starting(later(now, plan.start));
        self.stopping = false;
        self.go_on(container, now, effects);
        true
    }

    /// From starting to running, from running to its simulated end.
    fn go_on(
        &mut self,
        container: &ContainerPlan,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) -> bool {
        match self.state {
            State::Starting(at) if now >= at => {
                let until = match container.work {
                    Work::Simulated { run, .. } => run.map(|run| later(now, run)),
                    Work::Outside => None,
                };
                self.state = State::Running { since: now, until };
                match container.work {
                    Work::Simulated { .. } => effects.push(self.log("started")),
                    Work::Outside => effects.push(Effect::Start {
                        container: self.name.clone(),
                        attempt: self.restarts,
                    }),
                }
                true
            }
            State::Running { until: Some(until), .. } if now >= until => {
                let code = match (self.stopping, container.work) {
                    (true, _) => names::EXIT_TERMINATED,
                    (false, Work::Simulated { code, .. }) => code,
                    (false, Work::Outside) => 0,
                };
                self.end(code, until, effects);
                true
            }
            _ => false,
        }
    }

    /// Tells it to stop, once.
    fn stop(
        &mut self,
        container: &ContainerPlan,
        plan: &PodPlan,
        kill_at: Timestamp,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) -> bool {
        match (&mut self.state, container.work) {
            (State::Starting(_), _) => {
                // It never ran; the runtime reports it as killed.
                self.state = State::Running { since: now, until: None };
                self.end(names::EXIT_KILLED, now, effects);
                true
            }
            (State::Running { until, .. }, Work::Simulated { .. }) => {
                let stopped = later(now, plan.stop).min(kill_at.max(now));
                if self.stopping {
                    // A shorter notice came.
                    let sooner = until.is_some_and(|u| u > kill_at.max(now));
                    if sooner {
                        *until = Some(kill_at.max(now));
                    }
                    return sooner;
                }
                self.stopping = true;
                *until = Some(until.map_or(stopped, |u| u.min(stopped)));
                true
            }
            (State::Running { .. }, Work::Outside) if !self.stopping => {
                self.stopping = true;
                effects.push(Effect::Stop { container: self.name.clone(), kill_at });
                true
            }
            _ => false,
        }
    }

    fn end(&mut self, code: i32, at: Timestamp, effects: &mut Vec<Effect>) {
        if let State::Running { since, .. } = self.state {
            self.state = State::Ended(Ended { code, since, at, attempt: self.restarts });
            effects.push(self.log(&format!("exit {code}")));
        }
    }

    fn log(&self, line: &str) -> Effect {
        Effect::Log { container: self.name.clone(), line: line.to_owned() }
    }
}

/// The first start after an end comes at once, then after 10 s, 20 s, and so on up to 5 minutes.
fn back_off(crashes: u32) -> Duration {
    match crashes {
        0 => Duration::ZERO,
        n => FIRST_BACK_OFF.saturating_mul(1 << (n - 1).min(16)).min(LAST_BACK_OFF),
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
