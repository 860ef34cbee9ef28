//! What a name means: a pod, a pod group, or what owns such.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use muster_scheduler::input::{Dialect, Meta, Pod};
use serde_json::Value as Json;

use super::super::world::World;

/// How far down owners are followed: a TrainJob's pods are four steps away.
const DEEPEST: usize = 16;
/// How many names an error lists.
const LISTED: usize = 8;

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectQuery {
    /// Its kind as people write it, in small letters and singular.
    pub(crate) kind: Option<String>,
    pub(crate) name: String,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Its pods, by their place in the input.
    pub(crate) pods: Vec<usize>,
    /// Its pod groups, by their place in the input.
    pub(crate) groups: Vec<usize>,
}

/// An object by kind in small letters, namespace and name.
type Key = (String, String, String);

/// What owns what.
#[derive(Default)]
struct Family {
    /// The kind as the API writes it.
    kinds: BTreeMap<String, String>,
    /// Every object that is there or named as an owner, with its owners.
    owners: BTreeMap<Key, BTreeSet<Key>>,
}

// === impl ObjectQuery ===

impl ObjectQuery {
    /// `NAME`, `KIND/NAME`, or `KIND NAME`.
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let wrong = || format!("`{}`: write NAME, KIND/NAME, or KIND NAME", words.join(" "));
        let (kind, name) = match words {
            [one] => match one.split_once('/') {
                Some((kind, name)) => (Some(kind), name),
                None => (None, one.as_str()),
            },
            [kind, name] => (Some(kind.as_str()), name.as_str()),
            _ => return Err(wrong()),
        };
        if name.is_empty() || name.contains('/') || kind.is_some_and(str::is_empty) {
            return Err(wrong());
        }
        Ok(Self { kind: kind.map(singular), name: name.to_owned() })
    }
}

/// A kind as the API names it, whatever people write: `jobs`, `TrainJob`, `trainjobs.trainer.kubeflow.org`, `pg`.
fn singular(kind: &str) -> String {
    let word = kind.to_lowercase();
    let word = word.split('.').next().unwrap_or_default();
    match word {
        "po" => "pod",
        "pg" => "podgroup",
        "deploy" => "deployment",
        "sts" => "statefulset",
        "rs" => "replicaset",
        "lws" => "leaderworkerset",
        "cj" => "cronjob",
        "topologies" => "topology",
        _ => word.strip_suffix('s').unwrap_or(word),
    }
    .to_owned()
}

/// Looks for what is asked about. What owns another of the same name stands for both.
pub(crate) fn find(world: &World, asked: &ObjectQuery) -> Result<Subject, String> {
    let family = Family::of(world);
    let fits = |key: &&Key| {
        key.2 == asked.name
            && asked.kind.as_ref().is_none_or(|kind| key.0 == *kind)
            && world.namespace.as_ref().is_none_or(|namespace| key.1 == *namespace)
    };
    let found: Vec<&Key> = family.owners.keys().filter(fits).collect();
    let mut top = found.clone();
    for key in &found {
        let below = family.below(key);
        top.retain(|other| other == key || !below.contains(*other));
    }
    match top.as_slice() {
        [] => Err(family.unknown(world, asked)),
        [key] => Ok(family.subject(world, key)),
        several => {
            let named = several
                .iter()
                .map(|(kind, namespace, name)| format!("{kind}/{name} -n {namespace}"));
            let named: Vec<String> = named.take(LISTED).collect();
            Err(format!("{} can be several things: say {}", asked.name, named.join(", or ")))
        }
    }
}

/// Pod groups by how pods name them.
pub(crate) struct Groups<'a> {
    near: HashMap<(Dialect, &'a str, &'a str), usize>,
    /// By name alone, where that is how pods name them.
    far: HashMap<&'a str, usize>,
}

// === impl Groups ===

impl<'a> Groups<'a> {
    pub(crate) fn of(world: &'a World) -> Self {
        let mut known = Self { near: HashMap::new(), far: HashMap::new() };
        let scoped = world.config.params.groups_by_namespace;
        for (at, group) in world.input.pod_groups.iter().enumerate() {
            let Meta { namespace, name, .. } = &group.metadata;
            known.near.entry((group.dialect(), namespace, name)).or_insert(at);
            if group.dialect() == Dialect::Kai && !scoped {
                known.far.entry(name).or_insert(at);
            }
        }
        known
    }

    /// The group of a pod, by its place in the input: that of its own namespace if there is one.
    pub(crate) fn find(&self, pod: &Pod) -> Option<usize> {
        let (dialect, name) = pod.group()?;
        let near = self.near.get(&(dialect, pod.metadata.namespace.as_str(), name));
        let far = || self.far.get(name).filter(|_| dialect == Dialect::Kai);
        near.or_else(far).copied()
    }
}

// === impl Family ===

impl Family {
    fn of(world: &World) -> Self {
        let mut family = Self::default();
        let groups = Groups::of(world);
        for pod in &world.input.pods {
            family.add("Pod", &pod.metadata);
            if let Some(group) = groups.find(pod).and_then(|at| world.input.pod_groups.get(at)) {
                family.join(&pod.metadata, &group.metadata);
            }
        }
        for group in &world.input.pod_groups {
            family.add("PodGroup", &group.metadata);
        }
        for object in world.beside.owners() {
            let metadata = serde_json::from_value::<Meta>(object["metadata"].clone());
            if let (Some(kind), Ok(mut metadata)) = (object["kind"].as_str(), metadata) {
                if metadata.namespace.is_empty() {
                    metadata.namespace = "default".to_owned();
                }
                family.add(kind, &metadata);
            }
        }
        family
    }

    fn add(&mut self, kind: &str, metadata: &Meta) {
        let key = self.key(kind, &metadata.namespace, &metadata.name);
        let mut owners = BTreeSet::new();
        for owner in &metadata.owner_references {
            // Nodes own their static pods, and are nobody's work.
            if owner.kind == "Node" || owner.name.is_empty() {
                continue;
            }
            let above = self.key(&owner.kind, &metadata.namespace, &owner.name);
            self.owners.entry(above.clone()).or_default();
            owners.insert(above);
        }
        self.owners.entry(key).or_default().extend(owners);
    }

    /// A pod is below its group.
    fn join(&mut self, pod: &Meta, group: &Meta) {
        let above = self.key("PodGroup", &group.namespace, &group.name);
        let key = self.key("Pod", &pod.namespace, &pod.name);
        self.owners.entry(above.clone()).or_default();
        self.owners.entry(key).or_default().insert(above);
    }

    fn key(&mut self, kind: &str, namespace: &str, name: &str) -> Key {
        let small = kind.to_lowercase();
        self.kinds.entry(small.clone()).or_insert_with(|| kind.to_owned());
        (small, namespace.to_owned(), name.to_owned())
    }

    /// All that an object owns, near and far; itself if it owns itself.
    fn below(&self, top: &Key) -> BTreeSet<&Key> {
        let mut all: BTreeSet<&Key> = BTreeSet::new();
        let mut last: BTreeSet<&Key> = BTreeSet::from([top]);
        for _ in 0..DEEPEST {
            let next: BTreeSet<&Key> = self
                .owners
                .iter()
                .filter(|(key, owners)| {
                    !all.contains(key) && owners.iter().any(|owner| last.contains(owner))
                })
                .map(|(key, _)| key)
                .collect();
            if next.is_empty() {
                break;
            }
            all.extend(&next);
            last = next;
        }
        all
    }

    fn subject(&self, world: &World, top: &Key) -> Subject {
        let (kind, namespace, name) = top;
        let below = self.below(top);
        let input = &world.input;
        let is = |kind: &str, metadata: &Meta| {
            let key = (kind.to_owned(), metadata.namespace.clone(), metadata.name.clone());
            key == *top || below.contains(&key)
        };
        let own = input.pods.iter().enumerate().filter(|(_, pod)| is("pod", &pod.metadata));
        let pods: Vec<usize> = own.map(|(at, _)| at).collect();
        let own = input.pod_groups.iter().enumerate();
        let own = own.filter(|(_, group)| is("podgroup", &group.metadata));
        let mut groups: BTreeSet<usize> = own.map(|(at, _)| at).collect();
        let known = Groups::of(world);
        groups.extend(pods.iter().filter_map(|at| known.find(input.pods.get(*at)?)));
        Subject {
            kind: self.kinds.get(kind).unwrap_or(kind).clone(),
            namespace: namespace.clone(),
            name: name.clone(),
            pods,
            groups: groups.into_iter().collect(),
        }
    }

    /// Says what there is instead.
    fn unknown(&self, world: &World, asked: &ObjectQuery) -> String {
        let kind = asked.kind.as_deref().unwrap_or("object");
        let own = match kind {
            "queue" => Some("queues"),
            "node" => Some("nodes"),
            "topology" => Some("topology"),
            _ => None,
        };
        if let Some(own) = own {
            let name = &asked.name;
            return format!("a {kind} does not run: `musterctl {own} {name}` shows it");
        }
        let place = match &world.namespace {
            Some(namespace) => format!("in namespace {namespace}"),
            None => "in any namespace".to_owned(),
        };
        let mut message = format!("there is no {kind} {} {place}", asked.name);
        let alike = |key: &&Key| {
            (key.2.contains(&asked.name) || asked.name.contains(&key.2))
                && asked.kind.as_ref().is_none_or(|kind| key.0 == *kind || key.2 == asked.name)
        };
        let alike = self.owners.keys().filter(alike).take(LISTED);
        let alike: Vec<String> =
            alike.map(|(kind, namespace, name)| format!("{kind}/{name} -n {namespace}")).collect();
        if !alike.is_empty() {
            message.push_str(&format!(": there is {}", alike.join(", ")));
        } else if world.namespace.is_some() {
            message.push_str(": -n names another namespace, -A looks in all");
        } else {
            message.push_str(": only what has pods or a pod group, or may have, is known");
        }
        message
    }
}

/// Text of a field, empty if there is none.
pub(super) fn text<'a>(object: &'a Json, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}
