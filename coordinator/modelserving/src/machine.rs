//! One ModelServing's controller, without the cluster: it hears events, makes plans, and is told what was done.
//!
//! ```text
//!   restore ──▶ ┌─────────┐ ◀── hear(event) ──▶ steps, and whether to plan
//!               │ Machine │
//!   plan ◀───── └─────────┘ ◀── done(step) or failed(step) for each step, in order; then sweep
//! ```
//!
//! Steps are to be followed to the end, or to a failure. What is left half done is found by a later plan. What is seen
//! should not be ahead of what was heard: events first, then plans.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::{ModelServing, Spec};
use crate::leftovers;
use crate::naming::Shape;
use crate::plan::Draft;
use crate::pod::PodMutator;
use crate::recovery::Hearing;
use crate::revision;
use crate::seen::{PodSeen, Seen};
use crate::step::{Heard, Plan, Step};
use crate::store::{Change, Store};

/// What the controller knows of one ModelServing between two events.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    pub(crate) shape: Shape,
    pub(crate) store: Store,
    /// The uids of pods that have failed and are about to go.
    pub(crate) graced: BTreeSet<Arc<str>>,
    /// The uids of pods that were on their way out when their instance was made anew.
    pub(crate) replaced: BTreeSet<Arc<str>>,
}

/// Something that has happened. What is gone is no longer among what is seen.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A pod was added or changed.
    PodChanged(PodSeen<'a>),
    /// A pod is gone; this is how it was last seen.
    PodGone(PodSeen<'a>),
    /// A service is gone.
    ServiceGone(&'a ObjectMeta),
    /// A PodGroup is gone.
    PodGroupGone(&'a ObjectMeta),
    /// The ModelServing was changed: this is the spec that it had before.
    SpecChanged(&'a Spec),
    /// The time of a pod that failed is over.
    GraceOver {
        /// Its name.
        pod: &'a str,
        /// Its uid.
        uid: &'a str,
    },
}

// === impl Machine ===

impl Machine {
    /// For a ModelServing of this shape, of which nothing is known.
    pub fn new(shape: Shape) -> Machine {
        Machine { shape, ..Machine::default() }
    }

    /// What is known of the groups.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// After a start: learns from the pods that are there. Comes before everything else.
    pub fn restore(&mut self, serving: &ModelServing, seen: &Seen<'_>) -> Heard {
        let mut pods: Vec<&PodSeen<'_>> = seen.pods().iter().collect();
        pods.sort_by_key(|pod| pod.thing.name);
        // Of the revisions in a group, an old one counts: so it is replaced, unless it is up to date all the same.
        let new = revision::roles(&serving.spec.template.roles);
        let mut hearing = self.hearing(serving, seen);
        let (latest, old): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| pod.revision == new);
        for pod in old.iter().chain(&latest) {
            hearing.pod_found(pod);
        }
        hearing.groups_found(&new.into());
        hearing.heard.reconcile = true;
        hearing.heard
    }

    /// Something has happened; `seen` is what is there since.
    pub fn hear(&mut self, event: Event<'_>, serving: &ModelServing, seen: &Seen<'_>) -> Heard {
        let mut hearing = self.hearing(serving, seen);
        match event {
            Event::PodChanged(pod) => hearing.pod_changed(&pod),
            Event::PodGone(pod) => hearing.pod_gone(&pod),
            Event::ServiceGone(metadata) | Event::PodGroupGone(metadata) => {
                hearing.thing_gone(&seen.read(metadata));
            }
            Event::SpecChanged(old) => hearing.spec_changed(old),
            Event::GraceOver { pod, uid } => hearing.grace_over(pod, uid),
        }
        hearing.heard
    }

    /// What is to be done now. For a ModelServing that is on its way out, nothing: whoever waits until all its pods are
    /// gone would wait for ever if they were made anew.
    pub fn plan(
        &self,
        serving: &ModelServing,
        seen: &Seen<'_>,
        mutator: &dyn PodMutator,
        now: Timestamp,
    ) -> Plan {
        if serving.metadata.deletion_timestamp.is_some() {
            return Plan::default();
        }
        Draft::new(serving, seen, mutator, self).plan(now)
    }

    /// After the steps of a plan or of an event: forgets what is on its way out and no longer there, should the last
    /// of it have gone while nobody knew that it was to go. Says whether to plan again.
    pub fn sweep(&mut self, seen: &Seen<'_>) -> bool {
        let gone = leftovers::gone(&self.store, seen);
        self.apply(&gone);
        !gone.is_empty()
    }

    /// The step is done: its write was accepted, or it has none.
    pub fn done(&mut self, step: &Step) {
        self.apply(&step.changes);
    }

    /// The step's write was refused. What to do next is in [`Step::failure`].
    pub fn failed(&mut self, step: &Step) {
        self.apply(&step.undo);
    }

    fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::GraceOver(uid) => drop(self.graced.remove(uid)),
                Change::Replaced(uid) => drop(self.replaced.insert(uid.clone())),
                _ => {}
            }
            self.store.apply(change);
        }
    }

    fn hearing<'a>(&'a mut self, serving: &'a ModelServing, seen: &'a Seen<'a>) -> Hearing<'a> {
        Hearing { machine: self, serving, seen, heard: Heard::default() }
    }
}
