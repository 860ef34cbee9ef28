//! Bindings on their way: ordered, and not yet seen to be done. To the next cycle they are as good as done.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use muster_scheduler::input::{BindRequest, BindRequestSpec, Meta};

use crate::object::Name;
use crate::orders::{Bind, Outcome};

/// How often a binding is tried, and how long is waited in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Tries before it is given up.
    pub tries: u32,
    /// The first wait; it doubles with each try.
    pub first: SignedDuration,
    /// How long a pod is left alone after it was given up.
    pub rest: SignedDuration,
}

/// All bindings on their way.
#[derive(Clone, Debug, Default)]
pub struct Flights {
    flights: BTreeMap<Name, Flight>,
    resting: BTreeMap<Name, Rest>,
}

/// A binding on its way.
#[derive(Clone, Debug)]
struct Flight {
    bind: Bind,
    /// When it is tried again; none while it is being tried, or when the watch will show what became of it.
    again: Option<Timestamp>,
    /// Whether some try may have been done though nobody heard of it.
    unsure: bool,
}

/// A pod whose binding was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Its identity.
    pub uid: String,
    /// Until when it is left alone.
    pub until: Timestamp,
    /// What the last try came to.
    pub why: String,
}

// === impl Patience ===

impl Default for Patience {
    fn default() -> Self {
        Self {
            tries: 6,
            first: SignedDuration::from_millis(200),
            rest: SignedDuration::from_secs(30),
        }
    }
}

impl Patience {
    fn wait(&self, tried: u32) -> SignedDuration {
        self.first.saturating_mul(1 << tried.min(16)).min(self.rest)
    }
}

// === impl Flight ===

impl Flight {
    /// It is tried again, later each time.
    fn again(&mut self, patience: &Patience, now: Timestamp) {
        let wait = patience.wait(self.bind.attempt);
        self.bind.attempt += 1;
        self.again = Some(now.saturating_add(wait).unwrap_or(now));
    }
}

// === impl Flights ===

impl Flights {
    /// A binding is being tried.
    pub fn begin(&mut self, bind: Bind) {
        self.resting.remove(&bind.pod);
        self.flights.insert(bind.pod.clone(), Flight { bind, again: None, unsure: false });
    }

    /// What a try came to. Says why, if the binding is given up.
    pub fn landed(
        &mut self,
        pod: &Name,
        uid: &str,
        outcome: Outcome,
        patience: &Patience,
        now: Timestamp,
    ) -> Option<String> {
        let flight = self.flights.get_mut(pod).filter(|flight| flight.bind.uid == uid)?;
        match outcome {
            // Its place is taken until the watch shows that the pod has it, or is gone.
            Outcome::Done => None,
            // So here; but a conflict may have been one of the moment, and a binding harms nobody that is done twice.
            Outcome::Lost(_) => {
                flight.unsure = true;
                flight.again(patience, now);
                None
            }
            Outcome::Failed(_) | Outcome::Unsure(_)
                if flight.bind.attempt + 1 < patience.tries
                    || flight.unsure
                    || matches!(outcome, Outcome::Unsure(_)) =>
            {
                flight.unsure |= matches!(outcome, Outcome::Unsure(_));
                flight.again(patience, now);
                None
            }
            Outcome::Failed(why) | Outcome::Unsure(why) => {
                self.flights.remove(pod);
                let until = now.saturating_add(patience.rest).unwrap_or(now);
                let rest = Rest { uid: uid.to_owned(), until, why: why.clone() };
                self.resting.insert(pod.clone(), rest);
                Some(why)
            }
        }
    }

    /// Calls back those to nodes that have vanished, where it is sure that nothing was done and nothing is being tried. Whose
    /// they were.
    pub fn recall(&mut self, is_there: impl Fn(&str) -> bool) -> Vec<Name> {
        let may_stay = |flight: &Flight| {
            flight.unsure || flight.again.is_none() || is_there(&flight.bind.node)
        };
        let mut recalled = Vec::new();
        self.flights.retain(|pod, flight| {
            let stays = may_stay(flight);
            if !stays {
                recalled.push(pod.clone());
            }
            stays
        });
        recalled
    }

    /// A binding that was never sent is given up: the pod is left alone for a while.
    pub fn give_up(&mut self, pod: &Name, why: &str, patience: &Patience, now: Timestamp) {
        if let Some(flight) = self.flights.remove(pod) {
            let until = now.saturating_add(patience.rest).unwrap_or(now);
            let rest = Rest { uid: flight.bind.uid, until, why: why.to_owned() };
            self.resting.insert(pod.clone(), rest);
        }
    }

    /// The binding of a pod that is on its way.
    pub fn of(&self, pod: &Name) -> Option<&Bind> {
        self.flights.get(pod).map(|flight| &flight.bind)
    }

    /// The pod is gone, is another one, or has a node.
    pub fn end(&mut self, pod: &Name) {
        self.flights.remove(pod);
        self.resting.remove(pod);
    }

    /// Those that are to be tried again by now.
    pub fn due(&mut self, now: Timestamp) -> Vec<Bind> {
        let due =
            self.flights.values_mut().filter(|flight| flight.again.is_some_and(|at| at <= now));
        due.map(|flight| {
            flight.again = None;
            flight.bind.clone()
        })
        .collect()
    }

    /// When the next is to be tried again, or has rested.
    pub fn next(&self) -> Option<Timestamp> {
        let again = self.flights.values().filter_map(|flight| flight.again);
        again.chain(self.resting.values().map(|rest| rest.until)).min()
    }

    /// Lets those that have rested go on.
    pub fn wake(&mut self, now: Timestamp) {
        self.resting.retain(|_, rest| rest.until > now);
    }

    /// Pods that are left alone for now.
    pub fn resting(&self) -> impl Iterator<Item = (&Name, &Rest)> {
        self.resting.iter()
    }

    /// The node that a pod is on its way to.
    pub fn node(&self, pod: &Name, uid: &str) -> Option<&str> {
        let flight = self.flights.get(pod).filter(|flight| flight.bind.uid == uid)?;
        Some(&flight.bind.node)
    }

    /// Names and identities of pods that are on their way.
    pub fn pods(&self) -> impl Iterator<Item = (&Name, &str)> {
        self.flights.iter().map(|(pod, flight)| (pod, flight.bind.uid.as_str()))
    }

    /// As the engine knows them.
    pub fn requests(&self) -> impl Iterator<Item = BindRequest> {
        self.flights
            .values()
            .map(|flight| request(&flight.bind.pod, &flight.bind.node, &flight.bind.gpu_groups))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.flights.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }
}

/// A place as the engine knows one that is as good as taken.
pub(crate) fn request(pod: &Name, node: &str, gpu_groups: &[String]) -> BindRequest {
    let (namespace, name) = (pod.0.to_string(), pod.1.to_string());
    BindRequest {
        metadata: Meta { namespace, name: name.clone(), ..Meta::default() },
        spec: BindRequestSpec {
            pod_name: name,
            selected_node: node.to_owned(),
            selected_gpu_groups: gpu_groups.to_vec(),
            ..BindRequestSpec::default()
        },
        ..BindRequest::default()
    }
}
