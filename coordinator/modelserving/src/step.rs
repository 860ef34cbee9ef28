//! What is to be done: writes in order, and what each of them means once it is done.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::api::Status;
use crate::seen::ThingSeen;
use crate::store::Change;

/// One thing to do. Its order among the others matters.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// What to write; nothing if only the machine changes.
    pub write: Option<Write>,
    /// What to tell people, as events of the ModelServing, once it is done.
    pub notes: Vec<Note>,
    /// What to do when the write fails.
    pub failure: Failure,
    pub(crate) changes: Vec<Change>,
    pub(crate) undo: Vec<Change>,
}

/// What goes to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Make this. That something of this name exists already is no failure.
    Create(Object),
    /// Make it this, if it is still at the resource version in the body.
    Update(Object),
    /// Remove this. That it is gone already is no failure.
    Delete {
        /// What it is.
        kind: Kind,
        /// Its name.
        name: String,
        /// Only if it is still this very one.
        uid: Option<String>,
    },
    /// Remove all pods of the namespace that have these labels, at once.
    DeletePods(BTreeMap<&'static str, Arc<str>>),
    /// The status of the ModelServing is this.
    Status(Box<Status>),
}

/// An object to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// Its name; the namespace is the ModelServing's.
    pub name: String,
    /// All of it.
    pub body: Value,
}

/// The kinds of things that are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `v1`.
    Pod,
    /// `v1`.
    Service,
    /// `scheduling.volcano.sh/v1beta1`.
    PodGroup,
    /// `apps/v1`.
    ControllerRevision,
}

/// What to do when a write fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failure {
    /// Leave the rest of the steps, and plan again later.
    #[default]
    Stop,
    /// Go on with the step at this place in the list, and plan again later.
    GoOnAt(usize),
}

/// An event of the ModelServing, for people. Always of type `Normal`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// In one word.
    pub reason: &'static str,
    /// In a sentence.
    pub message: String,
}

/// What one look at a ModelServing asks for.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// What to do, in this order.
    pub steps: Vec<Step>,
    /// After the steps: look again at once.
    pub again: bool,
    /// Look again after this long, whatever happens.
    pub later: Option<Duration>,
    /// Why the steps are not all of it: tell it, and plan again later.
    pub error: Option<String>,
}

/// The reason of the event that a role runs.
const ROLE_RUNNING: &str = "RoleRunning";

/// What an event asks for.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// What to do, in this order, before the next plan.
    pub steps: Vec<Step>,
    /// Plan, once the steps are done.
    pub reconcile: bool,
    /// Hear these after that long.
    pub later: Vec<(Duration, Later)>,
}

/// What is to be heard later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Later {
    /// A pod that failed has had its time: hear [`Event::GraceOver`](crate::machine::Event::GraceOver).
    GraceOver {
        /// Its name.
        pod: Arc<str>,
        /// Its uid.
        uid: Arc<str>,
    },
}

// === impl Kind ===

impl Kind {
    /// As objects write it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Pod => "Pod",
            Kind::Service => "Service",
            Kind::PodGroup => "PodGroup",
            Kind::ControllerRevision => "ControllerRevision",
        }
    }

    /// As objects write it.
    pub fn api_version(self) -> &'static str {
        match self {
            Kind::Pod | Kind::Service => "v1",
            Kind::PodGroup => "scheduling.volcano.sh/v1beta1",
            Kind::ControllerRevision => "apps/v1",
        }
    }
}

// === impl Step ===

impl Step {
    pub(crate) fn write(write: Write) -> Step {
        Step { write: Some(write), ..Step::default() }
    }

    pub(crate) fn change(change: Change) -> Step {
        Step { changes: vec![change], ..Step::default() }
    }

    /// Removes this very thing.
    pub(crate) fn delete(kind: Kind, thing: &ThingSeen<'_>) -> Step {
        let uid = (!thing.uid.is_empty()).then(|| thing.uid.to_owned());
        Step::write(Write::Delete { kind, name: thing.name.to_owned(), uid })
    }
}

// === impl Heard ===

impl Heard {
    /// The same without a word of roles that run: what is learnt at a start has not just happened.
    #[must_use]
    pub fn at_start(mut self) -> Heard {
        for step in &mut self.steps {
            step.notes.retain(|note| note.reason != ROLE_RUNNING);
        }
        self
    }
}

// === impl Note ===

impl Note {
    pub(crate) fn role(state: &str, group: &str, role: &str, id: &str) -> Note {
        let reason = match state {
            "Running" => ROLE_RUNNING,
            "Deleting" => "RoleDeleting",
            _ => "RoleCreating",
        };
        let message = format!("Role {role}/{id} in ServingGroup {group} is now {state}");
        Note { reason, message }
    }
}
