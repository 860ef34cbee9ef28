//! `podaffinity`, and what pods require of pods: near some, away from others.
//!
//! Answers depend on all pods of the cluster. They are worked out once for a class and a state of the cluster: how many
//! pods that count there are for each value of each label that makes pods near.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use crate::{
    framework::{Plugin, Point, Scope, View},
    input::{PodAffinity, PodAffinityTerm},
    plugin::score,
    snapshot::{Class, ClassId, NodeId, TaskId},
};

/// Weights by label and value.
type Pulls = BTreeMap<(String, String), i64>;

/// Pods near pods, or away from them, as they would rather be.
#[derive(Default)]
pub struct PodAffinityOrder {
    known: RefCell<BTreeMap<ClassId, Known<Pulls>>>,
}

/// What a class meets in a state of the cluster.
#[derive(Debug, Default)]
struct Meets {
    /// For each term of required affinity, pods that match all of them by value of its label.
    near: Vec<BTreeMap<String, usize>>,
    /// Values of labels where a pod is that it must not be near, or that must not be near it.
    away: BTreeSet<(String, String)>,
    /// Whether it is the first of its kind, and so may be alone.
    first: bool,
}

/// When something was looked at, for which pod, and what was seen.
type Known<T> = (usize, TaskId, Rc<T>);

/// What classes meet.
#[derive(Default)]
pub(super) struct Affinities {
    known: RefCell<BTreeMap<ClassId, Known<Meets>>>,
}

fn terms(class: &Class, anti: bool) -> Option<&PodAffinity> {
    let affinity = class.constraints.affinity.as_ref()?;
    Some(if anti { &affinity.pod_anti_affinity } else { &affinity.pod_affinity })
}

/// Whether a term of `owner` means pods of `other`.
fn means(term: &PodAffinityTerm, owner: &Class, other: &Class) -> bool {
    let spaces = &term.namespaces;
    let space = &other.constraints.namespace;
    let in_space = match &term.namespace_selector {
        Some(selector) => *selector == Default::default() || spaces.contains(space),
        None if spaces.is_empty() => *space == owner.constraints.namespace,
        None => spaces.contains(space),
    };
    let labels = &other.constraints.labels;
    let own = |key: &String| owner.constraints.labels.get(key);
    in_space
        && term.label_selector.as_ref().is_some_and(|selector| selector.matches(labels))
        && term.match_label_keys.iter().all(|key| own(key).is_none() || labels.get(key) == own(key))
        && term
            .mismatch_label_keys
            .iter()
            .all(|key| own(key).is_none() || labels.get(key) != own(key))
}

// === impl Affinities ===

impl Affinities {
    /// Whether pods allow a pod on a node.
    pub(super) fn allow(&self, view: View<'_>, task: TaskId, node: NodeId) -> bool {
        let class_id = view.snapshot.tasks[task].class;
        let class = &view.snapshot.classes[class_id];
        let labels = &view.snapshot.nodes[node].labels;
        let meets = self.meets(view, task, class_id);
        if meets.away.iter().any(|(key, value)| labels.get(key) == Some(value.as_str())) {
            return false;
        }
        let required = terms(class, false).map_or(&[][..], |affinity| &affinity.required);
        let has_keys = required.iter().all(|term| labels.get(&term.topology_key).is_some());
        let near = required.iter().zip(&meets.near).all(|(term, counts)| {
            labels
                .get(&term.topology_key)
                .is_some_and(|value| counts.get(value).is_some_and(|count| *count > 0))
        });
        has_keys && (near || meets.first)
    }

    fn meets(&self, view: View<'_>, task: TaskId, id: ClassId) -> Rc<Meets> {
        let clock = view.state.clock();
        if let Some((at, of, meets)) = self.known.borrow().get(&id)
            && *at == clock
            && *of == task
        {
            return Rc::clone(meets);
        }
        let meets = Rc::new(look(view, task, id));
        self.known.borrow_mut().insert(id, (clock, task, Rc::clone(&meets)));
        meets
    }
}

fn look(view: View<'_>, task: TaskId, id: ClassId) -> Meets {
    let snapshot = view.snapshot;
    let class = &snapshot.classes[id];
    let required = terms(class, false).map_or(&[][..], |affinity| &affinity.required);
    let apart = terms(class, true).map_or(&[][..], |affinity| &affinity.required);
    let mut meets = Meets { near: vec![BTreeMap::new(); required.len()], ..Meets::default() };
    let mut any = false;
    for (node, state) in view.state.nodes.entries() {
        let labels = &snapshot.nodes[node].labels;
        for pod in state.pods.iter().filter(|pod| pod.task != task) {
            let other = &snapshot.classes[snapshot.tasks[pod.task].class];
            if !required.is_empty() && required.iter().all(|term| means(term, class, other)) {
                for (term, counts) in required.iter().zip(&mut meets.near) {
                    if let Some(value) = labels.get(&term.topology_key) {
                        *counts.entry(value.to_owned()).or_insert(0) += 1;
                        any = true;
                    }
                }
            }
            let mine = apart.iter().filter(|term| means(term, class, other));
            let theirs = terms(other, true).map_or(&[][..], |affinity| &affinity.required);
            let theirs = theirs.iter().filter(|term| means(term, other, class));
            for term in mine.chain(theirs) {
                if let Some(value) = labels.get(&term.topology_key) {
                    meets.away.insert((term.topology_key.clone(), value.to_owned()));
                }
            }
        }
    }
    meets.first = !any && required.iter().all(|term| means(term, class, class));
    meets
}

impl Plugin for PodAffinityOrder {
    fn name(&self) -> &'static str {
        "podaffinity"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::NodeOrder]
    }

    fn node_order_scope(&self, view: View<'_>, _: TaskId) -> Scope {
        if view.snapshot.any_pod_affinity { Scope::Session } else { Scope::Static }
    }

    fn node_order(&self, view: View<'_>, task: TaskId, node: NodeId) -> Option<f64> {
        if !view.snapshot.any_pod_affinity {
            return Some(0.0);
        }
        let labels = &view.snapshot.nodes[node].labels;
        let pulls = self.pulls(view, task);
        let here = pulls.iter().filter(|((key, value), _)| labels.get(key) == Some(value.as_str()));
        Some(here.map(|(_, weight)| *weight).sum::<i64>() as f64 * score::POD_AFFINITY)
    }
}

// === impl PodAffinityOrder ===

impl PodAffinityOrder {
    /// How much each value of a label pulls a pod, worked out once for a class and a state of the cluster.
    fn pulls(&self, view: View<'_>, task: TaskId) -> Rc<Pulls> {
        let (id, clock) = (view.snapshot.tasks[task].class, view.state.clock());
        if let Some((at, of, pulls)) = self.known.borrow().get(&id)
            && *at == clock
            && *of == task
        {
            return Rc::clone(pulls);
        }
        let pulls = Rc::new(look_for_pulls(view, task, id));
        self.known.borrow_mut().insert(id, (clock, task, Rc::clone(&pulls)));
        pulls
    }
}

fn look_for_pulls(view: View<'_>, task: TaskId, id: ClassId) -> Pulls {
    let snapshot = view.snapshot;
    let class = &snapshot.classes[id];
    let mut pulls = Pulls::new();
    for (node, state) in view.state.nodes.entries() {
        let labels = &snapshot.nodes[node].labels;
        let mut pull = |term: &PodAffinityTerm, weight: i64| {
            if let Some(value) = labels.get(&term.topology_key) {
                *pulls.entry((term.topology_key.clone(), value.to_owned())).or_insert(0) += weight;
            }
        };
        for pod in state.pods.iter().filter(|pod| pod.task != task) {
            let other = &snapshot.classes[snapshot.tasks[pod.task].class];
            for (anti, sign) in [(false, 1), (true, -1)] {
                for (owner, target) in [(class, other), (other, class)] {
                    let preferred =
                        terms(owner, anti).map_or(&[][..], |affinity| &affinity.preferred);
                    for term in preferred
                        .iter()
                        .filter(|term| means(&term.pod_affinity_term, owner, target))
                    {
                        pull(&term.pod_affinity_term, sign * i64::from(term.weight));
                    }
                }
            }
            let required = terms(other, false).map_or(&[][..], |affinity| &affinity.required);
            for term in required.iter().filter(|term| means(term, other, class)) {
                pull(term, 1);
            }
        }
    }
    pulls
}
