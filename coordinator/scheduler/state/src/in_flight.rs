//! Bindings on their way: ordered, and not yet seen to be done. To the next cycle they are as good as done.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use muster_scheduler::snapshot::{InFlight, InFlightKind};

use crate::object::Name;
use crate::orders::{Bind, Outcome};

/// How often a binding is tried, and how long is waited in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Tries before it is given up.
    pub tries: u32,
    /// The first wait; it doubles with each try.
    pub first: SignedDuration,
    /// How long a pod is left alone after it was given up.
    pub rest: SignedDuration,
}

/// All bindings on their way.
#[derive(Clone, Debug, Default)]
pub struct InFlightBindings {
    in_flight: BTreeMap<Name, InFlightBinding>,
    resting: BTreeMap<Name, Rest>,
}

/// A binding on its way.
#[derive(Clone, Debug)]
struct InFlightBinding {
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

// === impl Timeouts ===

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            tries: 6,
            first: SignedDuration::from_millis(200),
            rest: SignedDuration::from_secs(30),
        }
    }
}

impl Timeouts {
    fn wait(&self, tried: u32) -> SignedDuration {
        self.first.saturating_mul(1 << tried.min(16)).min(self.rest)
    }
}

// === impl InFlightBinding ===

impl InFlightBinding {
    /// It is tried again, later each time.
    fn again(&mut self, timeouts: &Timeouts, now: Timestamp) {
        let wait = timeouts.wait(self.bind.attempt);
        self.bind.attempt += 1;
        self.again = Some(now.saturating_add(wait).unwrap_or(now));
    }
}

// === impl InFlightBindings ===

impl InFlightBindings {
    /// A binding is being tried.
    pub fn begin(&mut self, bind: Bind) {
        self.resting.remove(&bind.pod);
        self.in_flight
            .insert(bind.pod.clone(), InFlightBinding { bind, again: None, unsure: false });
    }

    /// What a try came to. Says why, if the binding is given up.
    pub fn binding_result(
        &mut self,
        pod: &Name,
        uid: &str,
        outcome: Outcome,
        timeouts: &Timeouts,
        now: Timestamp,
    ) -> Option<String> {
        let binding = self.in_flight.get_mut(pod).filter(|binding| binding.bind.uid == uid)?;
        match outcome {
            // Its place is taken until the watch shows that the pod has it, or is gone.
            Outcome::Done => None,
            // So here; but a conflict may have been one of the moment, and a binding harms nobody that is done twice.
            Outcome::Lost(_) => {
                binding.unsure = true;
                binding.again(timeouts, now);
                None
            }
            Outcome::Failed(_) | Outcome::Unsure(_)
                if binding.bind.attempt + 1 < timeouts.tries
                    || binding.unsure
                    || matches!(outcome, Outcome::Unsure(_)) =>
            {
                binding.unsure |= matches!(outcome, Outcome::Unsure(_));
                binding.again(timeouts, now);
                None
            }
            Outcome::Failed(why) | Outcome::Unsure(why) => {
                self.in_flight.remove(pod);
                let until = now.saturating_add(timeouts.rest).unwrap_or(now);
                let rest = Rest { uid: uid.to_owned(), until, why: why.clone() };
                self.resting.insert(pod.clone(), rest);
                Some(why)
            }
        }
    }

    /// Calls back those to nodes that have vanished, where it is sure that nothing was done and nothing is being tried. Whose
    /// they were.
    pub fn recall(&mut self, is_there: impl Fn(&str) -> bool) -> Vec<Name> {
        let may_stay = |binding: &InFlightBinding| {
            binding.unsure || binding.again.is_none() || is_there(&binding.bind.node)
        };
        let mut recalled = Vec::new();
        self.in_flight.retain(|pod, binding| {
            let stays = may_stay(binding);
            if !stays {
                recalled.push(pod.clone());
            }
            stays
        });
        recalled
    }

    /// A binding that was never sent is given up: the pod is left alone for a while.
    pub fn give_up(&mut self, pod: &Name, why: &str, timeouts: &Timeouts, now: Timestamp) {
        if let Some(binding) = self.in_flight.remove(pod) {
            let until = now.saturating_add(timeouts.rest).unwrap_or(now);
            let rest = Rest { uid: binding.bind.uid, until, why: why.to_owned() };
            self.resting.insert(pod.clone(), rest);
        }
    }

    /// The binding of a pod that is on its way.
    pub fn of(&self, pod: &Name) -> Option<&Bind> {
        self.in_flight.get(pod).map(|binding| &binding.bind)
    }

    /// The pod is gone, is another one, or has a node.
    pub fn end(&mut self, pod: &Name) {
        self.in_flight.remove(pod);
        self.resting.remove(pod);
    }

    /// Those that are to be tried again by now.
    pub fn due(&mut self, now: Timestamp) -> Vec<Bind> {
        let due =
            self.in_flight.values_mut().filter(|binding| binding.again.is_some_and(|at| at <= now));
        due.map(|binding| {
            binding.again = None;
            binding.bind.clone()
        })
        .collect()
    }

    /// When the next is to be tried again, or has rested.
    pub fn next(&self) -> Option<Timestamp> {
        let again = self.in_flight.values().filter_map(|binding| binding.again);
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
        let binding = self.in_flight.get(pod).filter(|binding| binding.bind.uid == uid)?;
        Some(&binding.bind.node)
    }

    /// Where pods are on their way to, as the engine knows it.
    pub fn places(&self) -> impl Iterator<Item = (&Name, InFlight<'_>)> {
        self.in_flight.iter().map(|(pod, binding)| {
            let Bind { node, gpu_groups, annotations, .. } = &binding.bind;
            (pod, InFlight { node, gpu_groups, annotations, kind: InFlightKind::Binding })
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }
}
