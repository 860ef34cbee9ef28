//! Queues: a forest. A queue whose parent is missing, or that is its own ancestor, is left out with all below it.

use std::collections::BTreeMap;

use crate::{
    input::{Queue as QueueObject, Quota, Usage},
    snapshot::{FIRST_KIND, KINDS, NOTHING, Queue, QueueId, Table},
};

use super::Builder;

const FLAT_PARENT: &str = "default";
const MEGABYTE: f64 = 1_000_000.0;
const SHARED: usize = FIRST_KIND + KINDS;

// === impl Builder ===

impl Builder<'_> {
    pub(super) fn queues(&mut self) -> Table<QueueId, Queue> {
        let mut objects: BTreeMap<String, (Option<&QueueObject>, String)> = BTreeMap::new();
        for object in &self.input.queues {
            if !self.parameters.node_pool.takes(&object.metadata.labels) {
                continue;
            }
            let parent = object.spec.parent_queue.clone();
            if self.parameters.full_hierarchy_fairness {
                objects.insert(object.metadata.name.clone(), (Some(object), parent));
            } else if !parent.is_empty() {
                let entry = (Some(object), FLAT_PARENT.to_owned());
                objects.insert(object.metadata.name.clone(), entry);
            }
        }
        if !self.parameters.full_hierarchy_fairness {
            objects.insert(FLAT_PARENT.to_owned(), (None, String::new()));
        }
        self.drop_rootless(&mut objects);
        let usage: BTreeMap<&str, &Usage> =
            self.input.usage.iter().map(|(name, usage)| (name.as_str(), usage)).collect();
        let mut queues = Table::default();
        for (name, (object, _)) in &objects {
            let id = queues.push(queue(
                name,
                *object,
                usage.get(name.as_str()).copied(),
                self.dimensions.kinds(),
            ));
            self.queue_ids.insert(name.clone(), id);
        }
        let mut links = Vec::new();
        for (name, (_, parent)) in &objects {
            if let (Some(id), Some(parent)) = (self.queue_ids.get(name), self.queue_ids.get(parent))
            {
                links.push((*id, *parent));
            }
        }
        for (id, parent) in links {
            let child: &mut Queue = &mut queues[id];
            child.parent = Some(parent);
            queues[parent].children.push(id);
        }
        queues
    }

    /// Keeps queues from which going up ends at one without a parent.
    fn drop_rootless(&mut self, objects: &mut BTreeMap<String, (Option<&QueueObject>, String)>) {
        let mut bad: Vec<(String, String)> = Vec::new();
        for name in objects.keys() {
            let (mut at, mut steps) = (name.as_str(), 0);
            let why = loop {
                let Some((_, parent)) = objects.get(at) else {
                    break Some(format!(
                        "its ancestor {at} does not exist: create it, or name another parentQueue"
                    ));
                };
                if parent.is_empty() {
                    break None;
                }
                steps += 1;
                if steps > objects.len() {
                    break Some(
                        "its parents form a cycle: change spec.parentQueue of one of them"
                            .to_owned(),
                    );
                }
                at = parent;
            };
            if let Some(why) = why {
                bad.push((name.clone(), why));
            }
        }
        for (name, why) in bad {
            objects.remove(&name);
            self.leave_out(format!("Queue {name}"), why);
        }
    }
}

/// A queue's numbers for each thing that queues share, and which kinds of accelerators it names.
fn quotas(object: Option<&QueueObject>, kinds: &[String]) -> ([Quota; SHARED], [bool; KINDS]) {
    // A kind that nobody has: nothing to be due, nothing to divide.
    let absent = Quota { quota: 0.0, over_quota_weight: 0.0, limit: -1.0 };
    let free = Quota { quota: -1.0, over_quota_weight: 1.0, limit: -1.0 };
    let (mut quotas, mut named) = ([absent; SHARED], [false; KINDS]);
    let resources = object.map(|object| &object.spec.resources);
    let [cpu, memory, ..] = &mut quotas;
    *cpu = resources.map_or(free, |it| it.cpu);
    *memory = resources.map_or(free, |it| it.memory);
    let scale = |amount: f64| (amount * MEGABYTE).max(-1.0);
    memory.quota = scale(memory.quota);
    memory.limit = scale(memory.limit);
    for (at, kind) in kinds.iter().enumerate().take(KINDS) {
        let own = resources.and_then(|it| it.of_kind(kind));
        if let (Some(quota), Some(named)) = (quotas.get_mut(FIRST_KIND + at), named.get_mut(at)) {
            *named = own.is_some();
            *quota = own.unwrap_or_else(|| resources.map_or(free, |it| it.gpu));
        }
    }
    (quotas, named)
}

fn queue(
    name: &str,
    object: Option<&QueueObject>,
    usage: Option<&Usage>,
    kinds: &[String],
) -> Queue {
    let spec = object.map(|object| &object.spec);
    let (quotas, named) = quotas(object, kinds);
    // What was used of late is known of all accelerators together, and counts for each kind.
    let mut used = NOTHING;
    if let Some(usage) = usage {
        used = [usage.gpu; SHARED];
        let [cpu, memory, ..] = &mut used;
        (*cpu, *memory) = (usage.cpu, usage.memory);
    }
    Queue {
        name: name.to_owned(),
        display_name: spec.map(|spec| spec.display_name.clone()).unwrap_or_default(),
        parent: None,
        children: Vec::new(),
        created: object.and_then(|object| object.metadata.creation_timestamp),
        priority: spec.and_then(|spec| spec.priority).unwrap_or(100),
        deserved: quotas.map(|quota| quota.quota),
        limit: quotas.map(|quota| quota.limit),
        weight: quotas.map(|quota| quota.over_quota_weight),
        named,
        usage: used,
        preempt_min_runtime: spec.and_then(|spec| spec.preempt_min_runtime),
        reclaim_min_runtime: spec.and_then(|spec| spec.reclaim_min_runtime),
    }
}
