//! Faults on demand: what a test lets go wrong, drawn from a seed.

use std::time::Duration;

use muster_objects::status::{Resource, Status};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng, rngs::StdRng};

/// What goes wrong with a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The answer takes this long, on the sandbox's clock.
    Latency(Duration),
    /// The answer is this refusal.
    Answer(Status),
    /// All watches of the resource end.
    DropWatches,
    /// The log is forgotten: a watch from an older revision gets 410.
    Compact,
}

/// How often, and where, a fault strikes.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Only this verb (`get`, `list`, `watch`, `create`, `update`, `patch`, `delete`); empty: any.
    pub verb: String,
    /// Only this resource (`pods`, `jobs.batch`); empty: any.
    pub resource: String,
    /// From 0 (never) to 1 (always).
    pub chance: f64,
    /// At most this many times.
    pub times: Option<u32>,
    /// The fault that is injected.
    pub fault: Fault,
}

/// The rules in force and the dice.
#[derive(Debug)]
pub struct Faults(Mutex<State>);

#[derive(Debug)]
struct State {
    rules: Vec<Rule>,
    dice: StdRng,
    struck: u64,
}

// === impl Rule ===

impl Rule {
    /// A fault that strikes every request.
    pub fn new(fault: Fault) -> Self {
        Self { verb: String::new(), resource: String::new(), chance: 1.0, times: None, fault }
    }

    /// A refusal with one of the codes that real servers give under stress.
    pub fn refusal(code: u16) -> Self {
        let resource = Resource { group: "", plural: "objects" };
        Self::new(Fault::Answer(match code {
            409 => Status::stale(resource, "x"),
            429 => Status::too_many_requests("too many requests, injected", 1),
            503 => Status::unavailable("service unavailable, injected"),
            _ => Status::internal("injected"),
        }))
    }

    /// Only for this verb.
    pub fn verb(mut self, verb: &str) -> Self {
        self.verb = verb.to_owned();
        self
    }

    /// Only for this resource.
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = resource.to_owned();
        self
    }

    /// Only with this probability.
    pub fn chance(mut self, chance: f64) -> Self {
        self.chance = chance.clamp(0.0, 1.0);
        self
    }

    /// Only this many times.
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    fn concerns(&self, verb: &str, resource: &str) -> bool {
        (self.verb.is_empty() || self.verb == verb)
            && (self.resource.is_empty() || self.resource == resource)
            && self.times != Some(0)
    }
}

// === impl Faults ===

impl Faults {
    /// No rules yet; the dice fall as the seed says.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(State { rules: Vec::new(), dice: StdRng::seed_from_u64(seed), struck: 0 }))
    }

    /// Adds a rule.
    pub fn add(&self, rule: Rule) {
        self.0.lock().rules.push(rule);
    }

    /// Removes all rules: from now on nothing goes wrong.
    pub fn clear(&self) {
        self.0.lock().rules.clear();
    }

    /// How many faults have struck.
    pub fn struck(&self) -> u64 {
        self.0.lock().struck
    }

    /// The faults that strike this request.
    pub fn draw(&self, verb: &str, resource: &str) -> Vec<Fault> {
        let State { rules, dice, struck } = &mut *self.0.lock();
        let mut out = Vec::new();
        for rule in rules.iter_mut().filter(|rule| rule.concerns(verb, resource)) {
            if dice.random::<f64>() < rule.chance {
                rule.times = rule.times.map(|times| times - 1);
                *struck += 1;
                out.push(rule.fault.clone());
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(seed: u64) -> Vec<usize> {
        let faults = Faults::new(seed);
        faults.add(Rule::refusal(500).verb("list").chance(0.5));
        (0..64).map(|_| faults.draw("list", "pods").len()).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_faults() {
        assert_eq!(pattern(7), pattern(7));
        assert_ne!(pattern(7), pattern(8));
    }

    #[test]
    fn a_rule_strikes_only_where_it_says_and_as_often_as_it_says() {
        let faults = Faults::new(1);
        faults.add(Rule::refusal(409).verb("update").resource("jobs.batch").times(2));
        let strikes = |verb, resource| faults.draw(verb, resource).len();
        assert_eq!(strikes("update", "pods") + strikes("get", "jobs.batch"), 0);
        let three: usize = (0..3).map(|_| strikes("update", "jobs.batch")).sum();
        assert_eq!((three, faults.struck()), (2, 2));
    }
}
