//! Room that is being made: while the pods that must go are on their way out, nobody else gets their place.
//!
//! To a cycle those that must go are leaving, and what they leave is the gang's. When the last has left, the gang is bound where it was
//! promised. If one of those that must go may not, or the gang changes, the promise falls, and all is decided anew.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use muster_scheduler::decisions::{Action, Decisions};
use muster_scheduler::input::{BindRequest, PROMISED};

use crate::flight;
use crate::object::{self, Name};

/// A place that is promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The pod's identity.
    pub uid: String,
    /// The node.
    pub node: String,
    /// Shared devices that it has a part of.
    pub gpu_groups: Vec<String>,
    /// What plugins say of it.
    pub annotations: BTreeMap<String, String>,
}

/// Room that is being made for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Its pods and where they go.
    pub places: BTreeMap<Name, Place>,
    /// Pods that must go first, with their identities.
    pub leaving: BTreeMap<Name, String>,
    /// When it falls.
    pub until: Timestamp,
}

/// All promises, by group.
#[derive(Clone, Debug, Default)]
pub struct Promises(BTreeMap<String, Promise>);

// === impl Promises ===

impl Promises {
    /// Notes what a cycle has promised: groups that others are evicted for.
    pub fn make(
        &mut self,
        decisions: &Decisions,
        postponed: &BTreeSet<String>,
        group_of: impl Fn(&Name) -> Option<String>,
        uid_of: impl Fn(&Name) -> Option<String>,
        patience: SignedDuration,
        now: Timestamp,
    ) {
        let mut made: BTreeMap<String, Promise> = BTreeMap::new();
        for decision in &decisions.decisions {
            let eviction = decision.eviction.as_ref().filter(|_| !decision.node.is_empty());
            let Some(group) = eviction.and_then(|eviction| eviction.beneficiary.clone()) else {
                continue;
            };
            if postponed.contains(&group) {
                continue;
            }
            let pod = object::read(&decision.pod);
            let Some(uid) = uid_of(&pod) else { continue };
            made.entry(group)
                .or_insert_with(|| Promise::empty(now, patience))
                .leaving
                .insert(pod, uid);
        }
        if made.is_empty() {
            return;
        }
        for decision in decisions.decisions.iter().filter(|one| one.action == Action::Pipeline) {
            let pod = object::read(&decision.pod);
            let promise = group_of(&pod).and_then(|group| made.get_mut(&group));
            let (Some(promise), Some(uid)) = (promise, uid_of(&pod)) else { continue };
            let place = Place {
                uid,
                node: decision.node.clone(),
                gpu_groups: decision.gpu_groups.clone(),
                annotations: decision.annotations.clone(),
            };
            promise.places.insert(pod, place);
        }
        made.retain(|_, promise| !promise.places.is_empty());
        self.0.append(&mut made);
    }

    /// Those that fall: too old, or not as they were.
    pub fn fall(&mut self, now: Timestamp, stands: impl Fn(&Promise) -> bool) {
        self.0.retain(|_, promise| promise.until > now && stands(promise));
    }

    /// One of those that must go may not.
    pub fn refused(&mut self, pod: &Name) {
        self.0.retain(|_, promise| !promise.leaving.contains_key(pod));
    }

    /// A pod that was promised a place does not get it.
    pub fn lost(&mut self, pod: &Name) {
        self.0.retain(|_, promise| !promise.places.contains_key(pod));
    }

    /// Takes out those whose last pod has left, and whose nodes hold nothing back.
    pub fn due(
        &mut self,
        has_left: impl Fn(&Name, &str) -> bool,
        is_held: impl Fn(&Promise) -> bool,
    ) -> Vec<Promise> {
        let due = |promise: &Promise| {
            promise.leaving.iter().all(|(pod, uid)| has_left(pod, uid)) && !is_held(promise)
        };
        let groups: Vec<String> = self
            .0
            .iter()
            .filter(|(_, promise)| due(promise))
            .map(|(group, _)| group.clone())
            .collect();
        groups.iter().filter_map(|group| self.0.remove(group)).collect()
    }

    /// Pods that are as good as leaving.
    pub fn leaving(&self) -> BTreeSet<Name> {
        self.0.values().flat_map(|promise| promise.leaving.keys().cloned()).collect()
    }

    /// Places that are taken as soon as those have left.
    pub fn requests(&self) -> impl Iterator<Item = BindRequest> {
        let places = self.0.values().flat_map(|promise| &promise.places);
        places.map(|(pod, place)| {
            let mut request = flight::request(pod, &place.node, &place.gpu_groups);
            PROMISED.clone_into(&mut request.status.phase);
            request
        })
    }

    /// Whether room is being made for a group.
    pub fn of(&self, group: &str) -> Option<&Promise> {
        self.0.get(group)
    }

    /// When the next falls.
    pub fn next(&self) -> Option<Timestamp> {
        self.0.values().map(|promise| promise.until).min()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

// === impl Promise ===

impl Promise {
    fn empty(now: Timestamp, patience: SignedDuration) -> Self {
        let until = now.saturating_add(patience).unwrap_or(now);
        Self { places: BTreeMap::new(), leaving: BTreeMap::new(), until }
    }
}
