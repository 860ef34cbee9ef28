//! Who owns whom, by uid, and what is to be done about an object: no I/O, no time.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use muster_objects::meta;
use serde_json::{Value, json};

use super::super::json;
use super::super::kind::Kind;
use super::super::rest::Propagation;

pub const FOREGROUND: &str = "foregroundDeletion";
pub const ORPHAN: &str = "orphan";

/// Every object seen, by uid.
#[derive(Default)]
pub struct Graph {
    nodes: HashMap<String, Node>,
    /// Dependents by owner uid, whether the owner was seen or not.
    dependents: HashMap<String, BTreeSet<String>>,
}

/// An object in the graph of owners.
#[derive(Debug, Clone)]
pub struct Node {
    /// The object's resource.
    pub kind: Kind,
    /// Its metadata (at least).
    pub object: Arc<Value>,
}

/// An owner as a dependent names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// `apiVersion` of the reference.
    pub api_version: String,
    /// `kind` of the reference.
    pub kind: String,
    /// `name` of the reference.
    pub name: String,
    /// `uid` of the reference.
    pub uid: String,
}

/// What an owner reference points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerState {
    /// There, and stays.
    Solid,
    /// There, but waits for its dependents to go.
    Waiting,
    /// Gone, or never was.
    Absent,
    /// Not in the graph: ask the server.
    Unknown,
}

/// What to do with one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GarbageVerdict {
    /// The object stays as it is.
    Keep,
    /// The object is garbage.
    Delete(Propagation),
    /// Take these owners (by uid) off it.
    Unlink(Vec<String>),
}

/// The owner references of an object.
pub fn owners(object: &Value) -> Vec<Owner> {
    let read = |owner: &Value| Owner {
        api_version: json::text(owner, "/apiVersion").to_owned(),
        kind: json::text(owner, "/kind").to_owned(),
        name: json::text(owner, "/name").to_owned(),
        uid: json::text(owner, "/uid").to_owned(),
    };
    meta::owners(object).iter().map(read).collect()
}

fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    meta::finalizers(object).contains(&finalizer)
}

/// Whether the object is going and waits for its dependents to go first.
pub fn waits_for_dependents(object: &Value) -> bool {
    meta::is_terminating(object) && has_finalizer(object, FOREGROUND)
}

/// Whether the object is going and its dependents shall stay.
pub fn orphans_dependents(object: &Value) -> bool {
    meta::is_terminating(object) && has_finalizer(object, ORPHAN)
}

/// Whether two versions of an object differ in nothing that a verdict looks at.
pub fn judged_alike(one: &Value, other: &Value) -> bool {
    let matters = |object: &Value| {
        let going = meta::is_terminating(object);
        (going, json!([meta::owners(object), meta::finalizers(object)]))
    };
    matters(one) == matters(other)
}

fn blocks(dependent: &Value, owner: &str) -> bool {
    meta::owners(dependent)
        .iter()
        .any(|o| json::text(o, "/uid") == owner && json::flag(o, "/blockOwnerDeletion"))
}

// === impl Graph ===

impl Graph {
    /// Takes in a change and says whose standing must be looked at again.
    pub fn change(
        &mut self,
        kind: &Kind,
        before: Option<&Arc<Value>>,
        after: Option<&Arc<Value>>,
    ) -> Vec<String> {
        let mut look = Vec::new();
        if let Some(old) = before {
            let uid = meta::uid(old);
            for owner in meta::owners(old) {
                let owner = json::text(owner, "/uid");
                if let Some(set) = self.dependents.get_mut(owner) {
                    set.remove(uid);
                    if set.is_empty() {
                        self.dependents.remove(owner);
                    }
                }
                // It may have been what the owner waited for.
                if self.nodes.get(owner).is_some_and(|n| waits_for_dependents(&n.object)) {
                    look.push(owner.to_owned());
                }
            }
            if after.is_none() {
                self.nodes.remove(uid);
                look.extend(self.dependents.get(uid).into_iter().flatten().cloned());
            }
        }
        if let Some(new) = after {
            let uid = meta::uid(new).to_owned();
            for owner in meta::owners(new) {
                let owner = json::text(owner, "/uid").to_owned();
                let standing = self.nodes.get(&owner);
                if standing.is_none_or(|n| waits_for_dependents(&n.object) || !fits(n, new, &owner))
                {
                    look.push(uid.clone());
                }
                self.dependents.entry(owner).or_default().insert(uid.clone());
            }
            if meta::is_terminating(new)
                && (has_finalizer(new, FOREGROUND) || has_finalizer(new, ORPHAN))
            {
                look.push(uid.clone());
            }
            // A new owner may be another object than its dependents mean.
            if before.is_none() {
                look.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
            }
            self.nodes.insert(uid, Node { kind: kind.clone(), object: new.clone() });
        }
        look
    }

    /// The object with this uid.
    pub fn node(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// The objects that name this owner.
    pub fn dependents(&self, owner: &str) -> Vec<Node> {
        let uids = self.dependents.get(owner).into_iter().flatten();
        uids.filter_map(|uid| self.nodes.get(uid)).cloned().collect()
    }

    /// The dependents that must go before their owner.
    pub fn blockers(&self, owner: &str) -> Vec<Node> {
        let mut all = self.dependents(owner);
        all.retain(|node| blocks(&node.object, owner));
        all
    }

    /// The blockers that wait, in the end, for this very owner: none of them would ever go.
    pub fn ring(&self, owner: &str) -> Vec<Node> {
        let mut all = self.blockers(owner);
        all.retain(|node| self.waits_for(meta::uid(&node.object), owner));
        all
    }

    /// Whether `from` is `to`, or waits for it, directly or through others that wait.
    fn waits_for(&self, from: &str, to: &str) -> bool {
        let (mut seen, mut next) = (HashSet::new(), vec![from.to_owned()]);
        while let Some(uid) = next.pop() {
            let waits = self.nodes.get(&uid).is_some_and(|n| waits_for_dependents(&n.object));
            if !waits || !seen.insert(uid.clone()) {
                continue;
            }
            if uid == to {
                return true;
            }
            next.extend(self.blockers(&uid).iter().map(|n| meta::uid(&n.object).to_owned()));
        }
        false
    }

    /// How an owner stands, as far as the graph knows.
    pub fn standing(&self, dependent: &Value, owner: &Owner) -> OwnerState {
        match self.nodes.get(&owner.uid) {
            None => OwnerState::Unknown,
            Some(node) if !matches(node, dependent, owner) => OwnerState::Absent,
            Some(node) if waits_for_dependents(&node.object) => OwnerState::Waiting,
            Some(_) => OwnerState::Solid,
        }
    }

    /// What to do with an object whose owners stand so.
    pub fn verdict(&self, object: &Value, owners: &[(Owner, OwnerState)]) -> GarbageVerdict {
        if owners.is_empty() || meta::is_terminating(object) {
            return GarbageVerdict::Keep;
        }
        let of = |wanted: OwnerState| {
            let some = owners.iter().filter(move |(_, standing)| *standing == wanted);
            some.map(|(owner, _)| owner.uid.clone()).collect::<Vec<_>>()
        };
        let (solid, waiting, absent) =
            (of(OwnerState::Solid), of(OwnerState::Waiting), of(OwnerState::Absent));
        if !of(OwnerState::Unknown).is_empty() {
            return GarbageVerdict::Keep;
        }
        if !solid.is_empty() {
            let loose: Vec<String> = absent.into_iter().chain(waiting).collect();
            return if loose.is_empty() {
                GarbageVerdict::Keep
            } else {
                GarbageVerdict::Unlink(loose)
            };
        }
        let has_dependents = self.dependents.get(meta::uid(object)).is_some_and(|d| !d.is_empty());
        if !waiting.is_empty() && has_dependents {
            return GarbageVerdict::Delete(Propagation::Foreground);
        }
        GarbageVerdict::Delete(if has_finalizer(object, ORPHAN) {
            Propagation::Orphan
        } else if has_finalizer(object, FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        })
    }

    /// Owners that some object names and the graph has not seen.
    #[cfg(test)]
    pub fn unseen(&self) -> HashSet<&str> {
        let named = self.dependents.keys().map(String::as_str);
        named.filter(|uid| !self.nodes.contains_key(*uid)).collect()
    }
}

fn fits(node: &Node, dependent: &Value, uid: &str) -> bool {
    owners(dependent).iter().filter(|o| o.uid == uid).all(|owner| matches(node, dependent, owner))
}

/// Whether the object of that uid is what the reference says: same group, kind and name, and in the
/// dependent's namespace or in none.
fn matches(node: &Node, dependent: &Value, owner: &Owner) -> bool {
    let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let scope_fits =
        !node.kind.namespaced || meta::namespace(&node.object) == meta::namespace(dependent);
    node.kind.group == group
        && node.kind.kind == owner.kind
        && meta::name(&node.object) == owner.name
        && scope_fits
}

#[cfg(test)]
mod tests;
