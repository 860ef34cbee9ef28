//! Pod groups of every dialect, as one kind of tree.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::{
    input::{Dialect, PodGroup, Preemptibility, ResourceList, TopologyConstraint},
    snapshot::{
        Constraint, Id, Job, JobId, Member, MemberKind, Node, NodeId, PodSet, PodSetId, ROOT,
        Table, add, at,
    },
};

use super::{Builder, node::amount_of};

/// Priority of a group that names no known class, in a cluster without a default.
const DEFAULT_PRIORITY: i32 = 50;
/// From here on a group is not preemptible unless it says so.
const NON_PREEMPTIBLE: i32 = 100;
/// The leaf of a group that has no parts.
pub(super) const PLAIN: &str = "default";

/// How pods name a group: within their namespace; KAI's by name alone, unless that is switched off.
pub(super) fn group_key(scoped: bool, dialect: Dialect, namespace: &str, name: &str) -> String {
    match dialect {
        Dialect::Kai if !scoped => name.to_owned(),
        _ => format!("{namespace}/{name}"),
    }
}

/// A part, before it has its place in the tree.
struct Part {
    name: String,
    parent: Option<String>,
    min: Option<u32>,
    min_parts: Option<u32>,
    constraint: Option<Constraint>,
}

// === impl Builder ===

impl Builder<'_> {
    pub(super) fn jobs(
        &mut self,
        nodes: &Table<NodeId, Node>,
    ) -> (Table<JobId, Job>, Table<PodSetId, PodSet>) {
        let input = self.input;
        let scoped = self.parameters.groups_by_namespace;
        let ours = input.pod_groups.iter().filter(|object| {
            self.parameters.node_pool.takes(&object.metadata.labels) && !self.backs_off(object)
        });
        let mut objects: Vec<(String, &PodGroup)> = ours
            .map(|object| {
                let meta = &object.metadata;
                (group_key(scoped, object.dialect(), &meta.namespace, &meta.name), object)
            })
            .collect();
        // One that comes first stays first, so that it is the one that is kept.
        objects.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut left_out = Vec::new();
        objects.dedup_by(|(key, object), (kept, other)| {
            if key == kept {
                left_out.push((*object, *other));
            }
            key == kept
        });
        for (object, other) in left_out {
            let why = format!(
                "PodGroup {}/{} has the same name, and pods name groups without a namespace: rename one",
                other.metadata.namespace, other.metadata.name
            );
            let name = format!("PodGroup {}/{}", object.metadata.namespace, object.metadata.name);
            self.leave_out(name, why);
        }
        let mut total = self.dimensions.zero();
        for node in nodes.iter() {
            add(&mut total, &node.allocatable);
        }
        let mut jobs = Table::with_capacity(objects.len());
        let mut pod_sets = Table::with_capacity(objects.len());
        for (key, object) in objects {
            self.job_keys.push(key);
            let id = JobId::of(jobs.len());
            let job = self.job(id, object, &total, &mut pod_sets);
            jobs.push(job);
        }
        (jobs, pod_sets)
    }

    /// Whether a group waits because this shard has failed to place it.
    fn backs_off(&self, object: &PodGroup) -> bool {
        if object.spec.scheduling_backoff.unwrap_or(-1) == -1 {
            return false;
        }
        let pool = object.metadata.labels.get(&self.parameters.node_pool.key).unwrap_or("default");
        let number = |text: &str| text.parse::<i64>().unwrap_or(0);
        object
            .status
            .scheduling_conditions
            .iter()
            .max_by_key(|condition| number(&condition.transition_id))
            .is_some_and(|condition| condition.node_pool == pool)
    }

    fn job(
        &mut self,
        id: JobId,
        object: &PodGroup,
        total: &[f64],
        pod_sets: &mut Table<PodSetId, PodSet>,
    ) -> Job {
        let spec = &object.spec;
        let queue_name = match object.metadata.labels.get("kai.scheduler/queue") {
            Some(label) if spec.queue.is_empty() => label.to_owned(),
            _ => spec.queue.clone(),
        };
        let queue = self.queue_ids.get(&queue_name).copied();
        let mut remarks = Vec::new();
        let priority = match queue {
            Some(_) => self.priority(&spec.priority_class_name, &mut remarks),
            None => 0,
        };
        let preemptible = queue.is_some()
            && match spec.preemptibility {
                Preemptibility::ByPriority => priority < NON_PREEMPTIBLE,
                Preemptibility::Preemptible => true,
                Preemptibility::NonPreemptible => false,
            };
        let parts = self.parts(object);
        let constraint = match &spec.network_topology {
            _ if !spec.topology_constraint.topology.is_empty() => {
                Some(self.constraint(&spec.topology_constraint))
            }
            Some(wanted) => self.network_constraint(object, wanted),
            None => None,
        };
        let tree = tree(&parts).unwrap_or_else(|error| {
            remarks.push(format!("{error}; until then it is a group without subgroups"));
            Vec::new()
        });
        let broken = tree.is_empty() && !parts.is_empty();
        let mut members = vec![Member {
            name: String::new(),
            parent: None,
            kind: MemberKind::Set {
                min: if broken { None } else { spec.min_sub_group },
                children: Vec::new(),
            },
            constraint: if broken { None } else { constraint },
        }];
        let mut leaves = Vec::new();
        if tree.is_empty() {
            let min = if broken { 1 } else { spec.min_member.unwrap_or(1) };
            leaves.push((members.len(), PLAIN.to_owned(), min));
            members.push(Member {
                name: PLAIN.to_owned(),
                parent: Some(ROOT),
                kind: MemberKind::Set { min: None, children: Vec::new() },
                constraint: None,
            });
        }
        for (part, parent, is_leaf) in tree {
            if is_leaf {
                leaves.push((members.len(), part.name.clone(), part.min.unwrap_or(0)));
            }
            members.push(Member {
                name: part.name.clone(),
                parent: Some(parent),
                kind: MemberKind::Set { min: part.min_parts, children: Vec::new() },
                constraint: part.constraint.clone(),
            });
        }
        let mut ids = Vec::new();
        for (slot, (member, name, min)) in leaves.into_iter().enumerate() {
            let set = pod_sets.push(PodSet { name, job: id, member, slot, min, tasks: Vec::new() });
            ids.push(set);
            if let Some(place) = members.get_mut(member) {
                place.kind = MemberKind::Pods(set);
            }
        }
        for at in 1..members.len() {
            let parent = members.get(at).and_then(|member| member.parent).unwrap_or(ROOT);
            if let Some(Member { kind: MemberKind::Set { children, .. }, .. }) =
                members.get_mut(parent)
            {
                children.push(at);
            }
        }
        Job {
            name: object.metadata.name.clone(),
            namespace: object.metadata.namespace.clone(),
            uid: object.metadata.uid.clone(),
            queue,
            queue_name,
            priority,
            preemptible,
            created: object.metadata.creation_timestamp,
            last_start: mark(object, "kai.scheduler/last-start-timestamp"),
            last_eviction: mark(object, "kai.scheduler/last-eviction-timestamp"),
            stale_since: mark(object, "kai.scheduler/stale-podgroup-timestamp"),
            preemption_delay: spec.preemption_delay,
            staleness_grace: spec.staleness_grace_period,
            mark_unschedulable: spec.mark_unschedulable.unwrap_or(true),
            members,
            pod_sets: ids,
            strays: Vec::new(),
            signature: 0,
            remarks,
            too_large: self.too_large(&spec.min_resources, total),
        }
    }

    /// What `minResources` asks for and all nodes together do not have.
    fn too_large(&self, asked: &ResourceList, total: &[f64]) -> Option<String> {
        asked.iter().find_map(|(name, amount)| {
            let dimension = self.dimensions.find(name);
            let has = dimension.map_or(0.0, |index| at(total, index));
            let wants = match dimension {
                Some(index) => amount_of(&self.dimensions, name, index, amount),
                None => amount.units() as f64,
            };
            (wants > has).then(|| {
                format!(
                    "minResources asks for {wants} of {name}, and all nodes together have {has}"
                )
            })
        })
    }

    fn priority(&self, class: &str, remarks: &mut Vec<String>) -> i32 {
        let classes = &self.input.priority_classes;
        if let Some(known) = classes.iter().find(|known| known.metadata.name == class) {
            return known.value;
        }
        let default = classes
            .iter()
            .find(|known| known.global_default)
            .map_or(DEFAULT_PRIORITY, |known| known.value);
        if !class.is_empty() {
            remarks.push(format!(
                "priority class {class} does not exist: create it, or name another; until then its priority is {default}"
            ));
        }
        default
    }

    fn parts(&self, object: &PodGroup) -> Vec<Part> {
        let spec = &object.spec;
        if !spec.min_task_member.is_empty() {
            let task = |(name, min): (&String, &u32)| Part {
                name: name.clone(),
                parent: None,
                min: Some(*min),
                min_parts: None,
                constraint: None,
            };
            return spec.min_task_member.iter().map(task).collect();
        }
        let part = |part: &crate::input::SubGroup| Part {
            name: part.name.clone(),
            parent: part
                .parent
                .as_ref()
                .map(|parent| parent.to_lowercase())
                .filter(|name| !name.is_empty()),
            min: part.min_member,
            min_parts: part.min_sub_group,
            constraint: part
                .topology_constraint
                .as_ref()
                .map(|constraint| self.constraint(constraint)),
        };
        spec.sub_groups.iter().map(part).collect()
    }

    fn constraint(&self, constraint: &TopologyConstraint) -> Constraint {
        let level =
            |level: &str| (!level.is_empty()).then(|| self.level(&constraint.topology, level));
        Constraint {
            topology_name: constraint.topology.clone(),
            topology: self.topology_ids.get(constraint.topology.as_str()).copied(),
            required: level(&constraint.required_topology_level),
            preferred: level(&constraint.preferred_topology_level),
        }
    }
}

/// Parts in an order in which parents come first, each with its parent's place and whether it holds pods.
fn tree(parts: &[Part]) -> Result<Vec<(&Part, usize, bool)>, String> {
    let mut names = BTreeSet::new();
    for part in parts {
        if part.name.is_empty() {
            return Err("a subgroup of spec.subGroups has no name: give it one".to_owned());
        }
        if !names.insert(part.name.as_str()) {
            return Err(format!(
                "spec.subGroups names {} twice: give each subgroup a name of its own",
                part.name
            ));
        }
    }
    let mut below: BTreeMap<&str, Vec<&Part>> = BTreeMap::new();
    for part in parts {
        if let Some(parent) = &part.parent
            && !names.contains(parent.as_str())
        {
            return Err(format!(
                "subgroup {} has the parent {parent}, which does not exist",
                part.name
            ));
        }
        below.entry(part.parent.as_deref().unwrap_or("")).or_default().push(part);
    }
    for list in below.values_mut() {
        list.sort_by(|a, b| a.name.cmp(&b.name));
    }
    let mut order = Vec::new();
    let mut queue: Vec<(&str, usize)> = vec![("", ROOT)];
    while let Some((parent, at)) = queue.pop() {
        for part in below.get(parent).into_iter().flatten() {
            let place = order.len() + 1;
            let is_leaf = !below.contains_key(part.name.as_str());
            order.push((*part, at, is_leaf));
            queue.push((part.name.as_str(), place));
        }
    }
    if order.len() < parts.len() {
        return Err("the parents of spec.subGroups form a cycle: change one of them".to_owned());
    }
    Ok(order)
}

fn mark(object: &PodGroup, name: &str) -> Option<Timestamp> {
    object.metadata.annotations.get(name)?.parse().ok()
}
