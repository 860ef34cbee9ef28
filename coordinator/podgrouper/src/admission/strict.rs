//! Rules that KAI does not have: what could never be placed, or would reach into another namespace, is refused when it
//! is written. Each can be switched off for those who come from KAI.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Refused;
use super::queue::unknown_resource;
use crate::names;
use crate::object::Object;
use crate::objects::{Key, Objects, Refusal};

const QUEUE_API: &str = "scheduling.run.ai/v2";
/// More queues above each other than anybody has.
const HIGHEST: usize = 32;

/// Which of them hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strict {
    /// Whether queues that are named must be there.
    pub known_queues: bool,
    /// Whether a queue with children stays. KAI's own webhook is never asked about deletions.
    pub kept_parents: bool,
    /// Whether `spec.resources` of a queue may name only what is read. Without it such a name is a warning.
    pub known_resources: bool,
    /// Whether each part of a PodGroup counts pods or parts, as in KAI of August 2026. KAI 0.12 does not ask for it.
    pub counted_parts: bool,
    /// Whether pods may name groups of their own namespace only.
    pub local_groups: bool,
    /// How many parts a PodGroup may have.
    pub most_parts: usize,
    /// How many pods a PodGroup may need at once.
    pub most_pods: i64,
}

// === impl Strict ===

impl Default for Strict {
    fn default() -> Self {
        Self {
            known_queues: true,
            kept_parents: true,
            known_resources: true,
            counted_parts: true,
            local_groups: true,
            most_parts: 20_000,
            most_pods: 100_000,
        }
    }
}

impl Strict {
    /// As KAI does it: nothing of this.
    pub const OFF: Self = Self {
        known_queues: false,
        kept_parents: false,
        known_resources: false,
        counted_parts: false,
        local_groups: false,
        most_parts: usize::MAX,
        most_pods: i64::MAX,
    };

    /// Judges a PodGroup that is written; `old` is the one that is there. What was taken once is not refused later.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn pod_group(
        &self,
        group: &Object,
        old: Option<&Object>,
        objects: &dyn Objects,
    ) -> Result<(), Refused> {
        let spec = |object: &'_ Object, key: &str| object.raw().get("spec")?.get(key).cloned();
        let parts = spec(group, "subGroups");
        let parts = parts.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if parts.len() > self.most_parts {
            let detail = format!("there are {}, and {} may be", parts.len(), self.most_parts);
            let remedy = "make several groups of it";
            return Err(Refused::new("too-many-parts", group, "spec.subGroups", detail, remedy));
        }
        let pods = |part: &Value| part.get("minMember").and_then(Value::as_i64).unwrap_or(0).max(0);
        let whole = spec(group, "minMember").and_then(|pods| pods.as_i64()).unwrap_or(0);
        let of_parts = parts.iter().map(pods).fold(0_i64, i64::saturating_add);
        let all = whole.max(of_parts);
        if all > self.most_pods {
            let detail = format!("{all} pods are needed at once, and {} may be", self.most_pods);
            let remedy = "ask for fewer at once";
            return Err(Refused::new("too-many-pods", group, "spec.minMember", detail, remedy));
        }
        let queue = spec(group, "queue");
        let before = old.and_then(|old| spec(old, "queue"));
        let name = queue.as_ref().and_then(Value::as_str).unwrap_or_default();
        if self.known_queues && !name.is_empty() && queue != before && is_absent(objects, name) {
            let detail = format!("there is no queue {name}");
            let remedy = "create it, or name another";
            return Err(Refused::new("queue-unknown", group, "spec.queue", detail, remedy));
        }
        Ok(())
    }

    /// Judges a queue that is written: its resources are read, and no queue is above itself.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn queue(&self, queue: &Object, objects: &dyn Objects) -> Result<Vec<String>, Refused> {
        let mut warnings = Vec::new();
        match unknown_resource(queue) {
            Some(refused) if self.known_resources => return Err(refused),
            Some(refused) => warnings.push(format!("{refused}; it has no effect")),
            None => {}
        }
        if !self.known_queues {
            return Ok(warnings);
        }
        let refused = |class, detail: String, remedy| {
            Err(Refused::new(class, queue, "spec.parentQueue", detail, remedy))
        };
        let mut seen = BTreeSet::from([queue.name().to_owned()]);
        let mut next = parent(queue);
        while let Some(name) = next {
            if !seen.insert(name.clone()) || seen.len() > HIGHEST {
                let detail = format!("{name} is above itself");
                return refused("queue-cycle", detail, "name a parent outside of the circle");
            }
            next = match objects.get(&Key::new(QUEUE_API, "Queue", "", &name)) {
                Ok(above) => parent(&above),
                Err(Refusal::Absent) if parent(queue).as_ref() == Some(&name) => {
                    let detail = format!("there is no queue {name}");
                    return refused("parent-queue-missing", detail, "create it first");
                }
                Err(_) => None,
            };
        }
        Ok(warnings)
    }

    /// Judges a pod: a group is named by its bare name, in the pod's own namespace.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn pod(&self, pod: &Object) -> Result<(), Refused> {
        let Some(name) = pod.annotation(names::GROUP) else { return Ok(()) };
        if self.local_groups && name.contains('/') {
            let field = format!("metadata.annotations[{}]", names::GROUP);
            let detail = format!("{name:?} names a group of a namespace");
            let remedy = "write the bare name of a group of the pod's own namespace";
            return Err(Refused::new("group-of-other-namespace", pod, field, detail, remedy));
        }
        Ok(())
    }
}

fn is_absent(objects: &dyn Objects, queue: &str) -> bool {
    let key = Key::new(QUEUE_API, "Queue", "", queue);
    matches!(objects.get(&key), Err(Refusal::Absent))
}

fn parent(queue: &Object) -> Option<String> {
    let parent = queue.raw().pointer("/spec/parentQueue").and_then(Value::as_str);
    parent.filter(|parent| !parent.is_empty()).map(str::to_owned)
}
