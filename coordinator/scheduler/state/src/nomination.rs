//! Room that is being made: while the pods that must go are on their way out, nobody else gets their place.
//!
//! To a cycle those that must go are leaving, and what they leave is the gang's. When the last has left, the gang is bound where it was
//! promised. If one of those that must go may not, or the gang changes, the nomination falls, and all is decided anew.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use muster_scheduler::decisions::{Action, Decisions};
use muster_scheduler::snapshot::{InFlight, InFlightKind};

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
pub struct Nomination {
    /// Its pods and where they go.
    pub places: BTreeMap<Name, Place>,
    /// Pods that must go first, with their identities.
    pub leaving: BTreeMap<Name, String>,
    /// When it falls.
    pub until: Timestamp,
}

/// All nominations, by group.
#[derive(Clone, Debug, Default)]
pub struct Nominations(BTreeMap<String, Nomination>);

// === impl Nominations ===

impl Nominations {
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
        let mut made: BTreeMap<String, Nomination> = BTreeMap::new();
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
                .or_insert_with(|| Nomination::empty(now, patience))
                .leaving
                .insert(pod, uid);
        }
        if made.is_empty() {
            return;
        }
        for decision in decisions.decisions.iter().filter(|one| one.action == Action::Pipeline) {
            let pod = object::read(&decision.pod);
            let nomination = group_of(&pod).and_then(|group| made.get_mut(&group));
            let (Some(nomination), Some(uid)) = (nomination, uid_of(&pod)) else { continue };
            let place = Place {
                uid,
                node: decision.node.clone(),
                gpu_groups: decision.gpu_groups.clone(),
                annotations: decision.annotations.clone(),
            };
            nomination.places.insert(pod, place);
        }
        made.retain(|_, nomination| !nomination.places.is_empty());
        self.0.append(&mut made);
    }

    /// Those that fall: too old, or not as they were.
    pub fn fall(&mut self, now: Timestamp, stands: impl Fn(&Nomination) -> bool) {
        self.0.retain(|_, nomination| nomination.until > now && stands(nomination));
    }

    /// One of those that must go may not.
    pub fn refused(&mut self, pod: &Name) {
        self.0.retain(|_, nomination| !nomination.leaving.contains_key(pod));
    }

    /// A pod that was promised a place does not get it.
    pub fn lost(&mut self, pod: &Name) {
        self.0.retain(|_, nomination| !nomination.places.contains_key(pod));
    }

    /// Takes out those whose last pod has left, and whose nodes hold nothing back.
    pub fn due(
        &mut self,
        has_left: impl Fn(&Name, &str) -> bool,
        is_held: impl Fn(&Nomination) -> bool,
    ) -> Vec<Nomination> {
        let due = |nomination: &Nomination| {
            nomination.leaving.iter().all(|(pod, uid)| has_left(pod, uid)) && !is_held(nomination)
        };
        let groups: Vec<String> = self
            .0
            .iter()
            .filter(|(_, nomination)| due(nomination))
            .map(|(group, _)| group.clone())
            .collect();
        groups.iter().filter_map(|group| self.0.remove(group)).collect()
    }

    /// Pods that are as good as leaving.
    pub fn leaving(&self) -> impl Iterator<Item = &Name> {
        self.0.values().flat_map(|nomination| nomination.leaving.keys())
    }

    /// Places that are taken as soon as those have left, as the engine knows them.
    pub fn places(&self) -> impl Iterator<Item = (&Name, InFlight<'_>)> {
        let places = self.0.values().flat_map(|nomination| &nomination.places);
        places.map(|(pod, place)| {
            let Place { node, gpu_groups, annotations, .. } = place;
            (pod, InFlight { node, gpu_groups, annotations, kind: InFlightKind::Nominated })
        })
    }

    /// Whether room is being made for a group.
    pub fn of(&self, group: &str) -> Option<&Nomination> {
        self.0.get(group)
    }

    /// When the next falls.
    pub fn next(&self) -> Option<Timestamp> {
        self.0.values().map(|nomination| nomination.until).min()
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

// === impl Nomination ===

impl Nomination {
    fn empty(now: Timestamp, patience: SignedDuration) -> Self {
        let until = now.saturating_add(patience).unwrap_or(now);
        Self { places: BTreeMap::new(), leaving: BTreeMap::new(), until }
    }
}
