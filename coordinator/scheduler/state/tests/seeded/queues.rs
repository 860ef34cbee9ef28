//! The queues of the seeded runs, and the law that none of them is above its limit.

use muster_scheduler::input::{PriorityClass, Queue};
use muster_scheduler_state::Object;
use serde_json::json;

use super::world::World;

/// Hundredths of a device.
const WHOLE: u32 = 100;

/// A queue: its name, the queue above it, its quota and its limit of devices.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub name: &'static str,
    parent: &'static str,
    quota: i32,
    limit: i32,
}

const fn rule(name: &'static str, parent: &'static str, quota: i32, limit: i32) -> Rule {
    Rule { name, parent, quota, limit }
}

impl Rule {
    pub fn is_limited(&self) -> bool {
        self.limit >= 0
    }
}

/// Two queues that may have everything.
pub const FREE: &[Rule] = &[rule("low", "", 0, -1), rule("high", "", 8, -1)];

/// What limits can be: of a queue above others, of both, of one alone, and of some on three levels.
const LIMITED: [&[Rule]; 4] = [
    &[rule("all", "", 0, 8), rule("low", "all", 0, -1), rule("high", "all", 4, -1)],
    &[rule("all", "", 8, 10), rule("low", "all", 2, 4), rule("high", "all", 6, 8)],
    &[rule("low", "", 4, 6), rule("high", "", 8, 8)],
    &[
        rule("all", "", 0, 14),
        rule("some", "all", 4, 9),
        rule("low", "some", 0, -1),
        rule("mid", "some", 3, 5),
        rule("high", "all", 6, -1),
    ],
];

/// How important groups are, and what the class is called; nobody preempts the last.
pub const PRIORITIES: [(&str, i32); 3] = [("batch", 40), ("train", 70), ("serve", 120)];

/// The queues of a run with limits.
pub fn limited(seed: u64) -> &'static [Rule] {
    LIMITED[(seed % LIMITED.len() as u64) as usize]
}

/// Queues and priority classes, as the API server lists them.
pub fn objects(rules: &[Rule]) -> Vec<Object> {
    let free = json!({"quota": -1, "overQuotaWeight": 1, "limit": -1});
    let queue = |rule: &Rule| {
        let gpu = json!({"quota": rule.quota, "overQuotaWeight": 1, "limit": rule.limit});
        let queue = json!({"metadata": {"name": rule.name}, "spec": {"parentQueue": rule.parent,
            "resources": {"cpu": free, "memory": free, "gpu": gpu}}});
        Object::Queue(serde_json::from_value::<Queue>(queue).unwrap())
    };
    let class = |(name, value): &(&str, i32)| {
        let class = json!({"metadata": {"name": name}, "value": value});
        Object::PriorityClass(serde_json::from_value::<PriorityClass>(class).unwrap())
    };
    rules.iter().map(queue).chain(PRIORITIES.iter().map(class)).collect()
}

/// Queues that groups can be in.
pub fn leaves(rules: &[Rule]) -> Vec<&'static str> {
    let is_parent = |rule: &&Rule| rules.iter().any(|other| other.parent == rule.name);
    rules.iter().filter(|rule| !is_parent(rule)).map(|rule| rule.name).collect()
}

impl World {
    /// No queue has more than its limit, counted over the pods that have a node and are to stay, in it and in all
    /// queues below it.
    pub fn check_limits(&self, when: &str) {
        for rule in self.rules.iter().filter(|rule| rule.is_limited()) {
            let mut used = 0;
            for pod in self.pods.values().filter(|pod| pod.node.is_some() && !pod.leaving) {
                let part = pod.part.as_ref().map_or(0, |part| part.percent * part.count);
                if self.is_below(self.queue_of(&pod.group), rule.name) {
                    used += pod.devices * WHOLE + part;
                }
            }
            let limit = rule.limit as u32 * WHOLE;
            assert!(
                used <= limit,
                "{when}: queue {} has {used} hundredths of devices, and its limit is {limit}",
                rule.name
            );
        }
    }

    fn is_below(&self, queue: &str, above: &str) -> bool {
        let parent = |queue: &str| Some(self.rules.iter().find(|rule| rule.name == queue)?.parent);
        let mut way = std::iter::successors(Some(queue), |queue| parent(queue));
        way.any(|queue| queue == above)
    }
}
