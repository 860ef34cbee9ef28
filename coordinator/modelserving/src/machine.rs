//! One ModelServing's controller, without the cluster: it hears events, makes plans, and is told what was done.
//!
//! ```text
//!   restore ──▶ ┌─────────┐ ◀── hear(event) ──▶ steps, and whether to plan
//!               │ Machine │
//!   plan ◀───── └─────────┘ ◀── done(step), failed(step): one of both for each step, in order
//! ```

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::{ModelServing, Spec};
use crate::naming::Shape;
use crate::pod::Adorn;
use crate::seen::{PodSeen, Seen};
use crate::step::{Heard, Plan, Step};
use crate::store::Store;

/// What the controller knows of one ModelServing between two events.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    pub(crate) shape: Shape,
    pub(crate) store: Store,
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
        let _ = (serving, seen);
        Heard::default()
    }

    /// Something has happened; `seen` is what is there since.
    pub fn hear(&mut self, event: Event<'_>, serving: &ModelServing, seen: &Seen<'_>) -> Heard {
        let _ = (event, serving, seen);
        Heard::default()
    }

    /// What is to be done now.
    pub fn plan(
        &self,
        serving: &ModelServing,
        seen: &Seen<'_>,
        adorn: &dyn Adorn,
        now: Timestamp,
    ) -> Plan {
        let _ = (serving, seen, adorn, now);
        Plan::default()
    }

    /// The step is done: its write was accepted, or it has none.
    pub fn done(&mut self, step: &Step) {
        for change in &step.changes {
            self.store.apply(change);
        }
    }

    /// The step's write was refused. What to do next is in [`Step::failure`].
    pub fn failed(&mut self, step: &Step) {
        for change in &step.undo {
            self.store.apply(change);
        }
    }
}
