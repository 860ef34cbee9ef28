//! Queues: a forest. A queue whose parent is missing, or that is its own ancestor, is left out with all below it.

use std::collections::BTreeMap;

use crate::{
    input::{Queue as QueueObject, Quota, Usage},
    snapshot::{Quantities, Queue, QueueId, Table},
};

use super::Builder;

const FLAT_PARENT: &str = "default";
const MEGABYTE: f64 = 1_000_000.0;

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
            let id = queues.push(queue(name, *object, usage.get(name.as_str()).copied()));
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

fn queue(name: &str, object: Option<&QueueObject>, usage: Option<&Usage>) -> Queue {
    let free = Quota { quota: -1.0, over_quota_weight: 1.0, limit: -1.0 };
    let spec = object.map(|object| &object.spec);
    let resources = spec.map_or([free, free, free], |spec| {
        [spec.resources.cpu, spec.resources.memory, spec.resources.gpu]
    });
    let read = |field: fn(&Quota) -> f64, scaled: bool| -> Quantities {
        let [cpu, memory, gpu] = resources;
        let memory = if scaled { (field(&memory) * MEGABYTE).max(-1.0) } else { field(&memory) };
        [field(&cpu), memory, field(&gpu)]
    };
    Queue {
        name: name.to_owned(),
        display_name: spec.map(|spec| spec.display_name.clone()).unwrap_or_default(),
        parent: None,
        children: Vec::new(),
        created: object.and_then(|object| object.metadata.creation_timestamp),
        priority: spec.and_then(|spec| spec.priority).unwrap_or(100),
        deserved: read(|quota| quota.quota, true),
        limit: read(|quota| quota.limit, true),
        weight: read(|quota| quota.over_quota_weight, false),
        usage: usage.map_or([0.0; 3], |usage| [usage.cpu, usage.memory, usage.gpu]),
        preempt_min_runtime: spec.and_then(|spec| spec.preempt_min_runtime),
        reclaim_min_runtime: spec.and_then(|spec| spec.reclaim_min_runtime),
    }
}
