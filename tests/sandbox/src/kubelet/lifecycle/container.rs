//! How one container moves from state to state.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::super::names;
use super::{ContainerEnd, ContainerPlan, ContainerRun, Effect, PodPlan, State, Work, later};

const FIRST_BACK_OFF: Duration = Duration::from_secs(10);
const LAST_BACK_OFF: Duration = Duration::from_secs(300);
/// How long a failed pull is shown as such before the pause.
const ERROR_SHOWN: Duration = Duration::from_secs(1);
/// A run of this length makes the back-off begin anew.
const FORGET_AFTER: SignedDuration = SignedDuration::from_mins(10);

// === impl ContainerRun ===

impl ContainerRun {
    pub(super) fn new(name: &str) -> Self {
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
    pub(super) fn start(
        &mut self,
        container: &ContainerPlan,
        plan: &PodPlan,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) -> bool {
        if container.missing_image.is_some() {
            return self.fail_to_pull(now);
        }
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

    /// The image is asked for again and again, with ever longer pauses.
    fn fail_to_pull(&mut self, now: Timestamp) -> bool {
        let (until, failures, pausing) = match self.state {
            State::Waiting => (later(now, ERROR_SHOWN), 1, false),
            State::NoImage { until, failures, pausing: false } if now >= until => {
                (later(now, back_off(failures)), failures, true)
            }
            State::NoImage { until, failures, pausing: true } if now >= until => {
                (later(now, ERROR_SHOWN), failures.saturating_add(1), false)
            }
            _ => return false,
        };
        self.state = State::NoImage { until, failures, pausing };
        true
    }

    /// From starting to running, from running to its simulated end.
    pub(super) fn go_on(
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
    pub(super) fn stop(
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

    pub(super) fn end(&mut self, code: i32, at: Timestamp, effects: &mut Vec<Effect>) {
        if let State::Running { since, .. } = self.state {
            self.state = State::Ended(ContainerEnd { code, since, at, attempt: self.restarts });
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
