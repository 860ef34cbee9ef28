//! What would help, with numbers.

use std::collections::BTreeSet;

use muster_scheduler::input::{Pod, PodGroup};
use muster_scheduler::reason::Reason;
use muster_scheduler::session::Session;
use muster_scheduler::snapshot::{
    FIRST_KIND, JobId, NOTHING, Quantities, QueueId, Snapshot, devices, kind_of,
};
use muster_scheduler::state::Gang;

use super::super::table::number;
use super::super::world::World;
use super::facts::{Facts, GroupFacts, PodFacts, RunState};
use super::find::Subject;

/// How many names advice lists.
const LISTED: usize = 5;
/// What queues share, and what one unit of it is called.
const SHARED: [(&str, f64, &str); 3] =
    [("cpu", 1000.0, "CPUs"), ("memory", 1e9, "GB of memory"), ("gpu", 1.0, "devices")];
/// From this priority on a group cannot be preempted unless it says so.
const NON_PREEMPTIBLE: i32 = 100;

/// What would help something that has neither pods nor a group.
pub(super) fn no_pods(subject: &Subject) -> Vec<String> {
    let Subject { kind, namespace, name, .. } = subject;
    let small = kind.to_lowercase();
    vec![
        format!(
            "{kind} has no pods and no pod group yet: its controller makes them, unless it is suspended"
        ),
        format!("kubectl describe {small} {name} -n {namespace} shows its conditions and events"),
    ]
}

/// What would help pods that are in no group.
pub(super) fn loose(world: &World, pods: &[&Pod], loose: &[PodFacts]) -> Vec<String> {
    let waits = |pod: &&&Pod| {
        loose.iter().any(|facts| facts.name == pod.key() && facts.state == RunState::Waits)
    };
    let mut help = BTreeSet::new();
    for pod in pods.iter().filter(waits) {
        let scheduler = pod.spec.scheduler_name.as_str();
        if !world.schedulers.iter().any(|name| name == scheduler) {
            help.insert(format!(
                "ask the scheduler that the pods name, {scheduler}; Muster places pods with schedulerName: {}",
                world.schedulers.join(" or ")
            ));
        } else if let Some((_, group)) = pod.group() {
            help.insert(format!(
                "create PodGroup {group} in namespace {}, which the pods name",
                pod.metadata.namespace
            ));
        } else {
            let place = &pod.metadata.namespace;
            help.insert(format!(
                "the pod grouper has given them no pod group: events of the pods say why (kubectl get events -n {place}), \
                 and kubectl get pod {} -n {place} -o yaml | musterctl group -f - tries it",
                pod.metadata.name
            ));
        }
    }
    help.into_iter().collect()
}

/// Why a group is not looked at, and what would help.
pub(super) fn passed_over(snapshot: &Snapshot, group: &PodGroup) -> (String, Vec<String>) {
    let key = format!("PodGroup {}/{}", group.metadata.namespace, group.metadata.name);
    if let Some(left_out) = snapshot.left_out.iter().find(|left_out| left_out.object == key) {
        return (left_out.why.clone(), Vec::new());
    }
    let pool = &snapshot.parameters.node_pool;
    if !pool.takes(&group.metadata.labels) {
        let why = format!("it is of another node pool than {}", pool.name());
        let help = format!("correct its label {}", pool.key);
        return (why, vec![help]);
    }
    let why = "it could not be placed once, and its schedulingBackoff asks for no second attempt";
    let help = "set spec.schedulingBackoff to -1, or delete it and let its owner make it again";
    (why.to_owned(), vec![help.to_owned()])
}

/// What would help a group.
pub(super) fn group(facts: &Facts<'_>, id: JobId, group: &GroupFacts) -> Vec<String> {
    let session = facts.session;
    let mut help = Vec::new();
    match group.state {
        RunState::Placed => {
            return vec![
                "nothing: it is placed in the scheduler's next cycle, if one runs".to_owned(),
            ];
        }
        RunState::Promised => {
            help.push("wait: it gets its nodes as soon as the pods above have left".to_owned());
        }
        RunState::NoPods => {
            help.push("its pods are gone or ending, and none waits: see what owns it".to_owned());
        }
        _ => {}
    }
    let Some(waiting) = &group.now else { return help };
    match waiting.reason {
        Reason::QueueDoesNotExist => {
            help.push(format!(
                "create Queue {}, or name one that is there: {}",
                group.queue,
                leaves(session)
            ));
        }
        Reason::QueueIsNotALeaf => {
            help.push(format!("name a queue without queues below it: {}", leaves(session)))
        }
        Reason::NotEnoughPods => not_enough_pods(group, &mut help),
        Reason::ImpossibleSubGroups => {
            help.push("lower spec.minSubGroup, or add subgroups".to_owned())
        }
        Reason::UnknownSubGroup => {
            help.push("correct the pods' label kai.scheduler/subgroup-name".to_owned());
        }
        Reason::OverLimit => bound(session, id, true, &mut help),
        Reason::NonPreemptibleOverQuota => {
            bound(session, id, false, &mut help);
            help.push(format!(
                "or let it be preempted: label kai.scheduler/preemptibility=preemptible, or a priority class below {NON_PREEMPTIBLE}"
            ));
        }
        Reason::LargerThanAnyNode => {
            help.push(
                "ask for less in one pod, in more pods if need be, or add a larger node".to_owned(),
            );
        }
        Reason::MissingConfigMap => {
            help.push("create what is named, or mark it optional".to_owned())
        }
        Reason::MissingVolume | Reason::MissingDeviceClaim => {
            help.push("create the claims that are named, in the pods' namespace".to_owned());
        }
        Reason::UnknownTopology => {
            help.push(
                "musterctl topology lists what there is: name one of those, and a level of it"
                    .to_owned(),
            );
        }
        Reason::NoDomainHasRoom => {
            room(facts, id, group, &mut help);
            help.push(
                "or ask for a coarser level; musterctl topology shows which gang fits where"
                    .to_owned(),
            );
        }
        Reason::NoRoom => room(facts, id, group, &mut help),
        Reason::NoNodeAllows => {}
        Reason::PreemptionDelayNotElapsed => {
            room(facts, id, group, &mut help);
            help.push(
                "or lower its preemption delay (annotation kai.scheduler/preemption-delay)"
                    .to_owned(),
            );
        }
        Reason::DecisionFailed => help.push(
            "report this with the output of musterctl snapshot; changing what is unusual about the group may help meanwhile"
                .to_owned(),
        ),
        Reason::Other => {
            help.push("see the message: a plugin of this scheduler says no".to_owned())
        }
    }
    help.extend(waiting.nodes.iter().filter_map(|(why, count)| node(why, *count)));
    if group.position.is_some_and(|position| position.place > 1) && group.state == RunState::Waits {
        help.push(
            "groups before it in its queue go first: a higher priority class puts it ahead"
                .to_owned(),
        );
    }
    help
}

/// Queues that take groups.
fn leaves(session: &Session<'_>) -> String {
    let leaves = session.snapshot.queues.iter().filter(|queue| queue.is_leaf());
    let names: Vec<&str> = leaves.map(|queue| queue.name.as_str()).collect();
    match names.get(..LISTED) {
        _ if names.is_empty() => "there are none yet".to_owned(),
        Some(some) if names.len() > LISTED => format!("{}, …", some.join(", ")),
        _ => names.join(", "),
    }
}

fn not_enough_pods(group: &GroupFacts, help: &mut Vec<String>) {
    let gated: Vec<&PodFacts> = group.pods.iter().filter(|pod| pod.status == "Gated").collect();
    match gated.first() {
        Some(first) => help.push(format!(
            "{} pods have a scheduling gate ({}): whoever set it takes it away",
            gated.len(),
            first.note
        )),
        None => help.push(
            "its controller makes the pods: look at the workload's conditions and events"
                .to_owned(),
        ),
    }
    let failed = group.pods.iter().filter(|pod| pod.status == "Failed").count();
    if failed > 0 {
        help.push(format!("{failed} pods have failed and count no more: kubectl logs says why"));
    }
}

/// The queue that would go above its limit, or its quota, and by how much.
fn bound(session: &Session<'_>, id: JobId, limit: bool, help: &mut Vec<String>) {
    let snapshot = session.snapshot;
    let asked = session.request(&Gang::whole(id));
    let up = std::iter::successors(snapshot.jobs[id].queue, |queue| snapshot.queues[*queue].parent);
    for queue in up {
        let spec = &snapshot.queues[queue];
        let (most, field) = if limit { (spec.limit, "limit") } else { (spec.deserved, "quota") };
        let has = if limit { session.queue_allocated(queue) } else { Some(fixed(session, queue)) };
        let has = has.unwrap_or(NOTHING);
        for (at, (most, (has, asked))) in
            most.into_iter().zip(has.into_iter().zip(asked)).enumerate()
        {
            let (name, unit, words) = shared(snapshot, queue, at);
            if most == -1.0 || asked == 0.0 || most >= has + asked {
                continue;
            }
            // A queue's memory is written in millions of bytes.
            let written = |amount: f64| if name == "memory" { amount / 1e6 } else { amount };
            let dot = if name.starts_with('[') { "" } else { "." };
            help.push(format!(
                "raise spec.resources{dot}{name}.{field} of Queue {} from {} to {} or more",
                spec.name,
                number(written(most)),
                number(written(has + asked))
            ));
            if asked <= most {
                help.push(format!(
                    "or wait until {} {words} of Queue {} are free{}",
                    number((has + asked - most) / unit),
                    spec.name,
                    holders(session, queue)
                ));
            }
        }
    }
}

/// One of the things that queues share: the field of a queue that bounds it, its unit, and what it is called.
fn shared(snapshot: &Snapshot, queue: QueueId, at: usize) -> (String, f64, &str) {
    let kinds = snapshot.dimensions.kinds();
    let place = at.saturating_sub(FIRST_KIND);
    let (name, unit, words) = SHARED.get(at.min(FIRST_KIND)).copied().unwrap_or_default();
    let kind = kinds.get(place).filter(|_| at >= FIRST_KIND);
    let named = snapshot.queues[queue].named.get(place) == Some(&true);
    let field = kind.filter(|_| named).map_or(name.to_owned(), |kind| format!("[{kind}]"));
    (field, unit, kind.filter(|_| kinds.len() > 1).map_or(words, String::as_str))
}

/// What pods of a queue have that nobody can preempt.
fn fixed(session: &Session<'_>, queue: QueueId) -> Quantities {
    let snapshot = session.snapshot;
    let jobs = snapshot
        .jobs
        .entries()
        .filter(|(_, job)| !job.preemptible && is_below(snapshot, job.queue, queue));
    jobs.map(|(id, _)| session.allocated_of(&Gang::whole(id)))
        .fold(NOTHING, muster_scheduler::snapshot::plus)
}

fn is_below(snapshot: &Snapshot, queue: Option<QueueId>, top: QueueId) -> bool {
    std::iter::successors(queue, |queue| snapshot.queues[*queue].parent).any(|queue| queue == top)
}

/// Groups of a queue that have most devices.
fn holders(session: &Session<'_>, queue: QueueId) -> String {
    let snapshot = session.snapshot;
    let mut groups: Vec<(f64, String)> = snapshot
        .jobs
        .entries()
        .filter(|(_, job)| is_below(snapshot, job.queue, queue))
        .map(|(id, job)| (devices(&session.allocated_of(&Gang::whole(id))), job.key()))
        .filter(|(devices, _)| *devices > 0.0)
        .collect();
    groups.sort_by(|left, right| right.0.total_cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
    let named: Vec<String> = groups
        .iter()
        .take(LISTED)
        .map(|(devices, key)| format!("{key} has {}", number(*devices)))
        .collect();
    if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) }
}

/// The kind of devices that all pods of a group ask for whole, where it is one. Nodes may have others, which do not help.
fn kind(snapshot: &Snapshot, id: JobId) -> Option<usize> {
    let sets = snapshot.pod_sets.entries().filter(|(_, set)| set.job == id);
    let tasks = sets.flat_map(|(_, set)| &set.tasks);
    let classes = tasks.map(|task| &snapshot.classes[snapshot.tasks[*task].class]);
    let mut kinds = classes
        .filter(|class| !class.cpu_only)
        .map(|class| (!class.gpu.is_shared()).then_some(class.primary));
    let first = kinds.next()??;
    kinds.all(|kind| kind == Some(first)).then_some(first)
}

/// What is asked for against what is free, and whether the queue may take from others.
fn room(facts: &Facts<'_>, id: JobId, group: &GroupFacts, help: &mut Vec<String>) {
    let (session, snapshot) = (facts.session, facts.session.snapshot);
    let request = session.request(&Gang::whole(id));
    let asked = devices(&request);
    let kind = kind(snapshot, id);
    let ready = || snapshot.nodes.entries().filter(|(_, node)| node.ready);
    let free: f64 = ready()
        .map(|(id, node)| match kind {
            Some(kind) => session.state.nodes[id].idle.get(kind).copied().unwrap_or_default(),
            None => session.state.nodes[id].idle_gpus(node, &snapshot.dimensions).0,
        })
        .map(|free| free.max(0.0))
        .sum();
    let words = kind.map_or("devices", |kind| snapshot.dimensions.name(kind));
    let all: Option<f64> = kind.map(|kind| {
        ready().map(|(_, node)| node.allocatable.get(kind).copied().unwrap_or_default()).sum()
    });
    if let Some(all) = all.filter(|all| *all < asked) {
        help.push(format!(
            "it asks for {} {words} at once, and all nodes together have {}: ask for less, or add nodes",
            number(asked),
            number(all)
        ));
    } else if asked > 0.0 && free < asked {
        help.push(format!(
            "free {} more {words}: it asks for {} at once, {} are free on nodes that take pods",
            number(asked - free),
            number(asked),
            number(free)
        ));
    } else if asked > 0.0 {
        help.push(format!(
            "{} {words} are free and it asks for {}, but not where its pods fit: smaller pods fit into gaps; musterctl nodes shows them",
            number(free),
            number(asked)
        ));
    }
    if let Some(queue) = group.queues.first() {
        let kinds = snapshot.dimensions.kinds();
        let of = kind.map(|kind| kind_of(snapshot.dimensions.name(kind)));
        let of = of.filter(|_| kinds.len() > 1);
        let (has, fair) = (queue.allocated.of(of), queue.fair_share.of(of));
        if asked > 0.0 && queue.quota.of(of) != -1.0 && has + asked > fair {
            let devices = of.unwrap_or("devices");
            help.push(format!(
                "Queue {} would have {} {devices} of a fair share of {}, so it may not take any back from other queues: raise its quota",
                queue.name,
                number(has + asked),
                number(fair)
            ));
        }
    }
}

/// What would help with nodes that refuse, by why.
fn node(why: &str, count: u32) -> Option<String> {
    let nodes = if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") };
    let text = match why {
        "taint not tolerated" => {
            format!("tolerate the taints of {nodes}, or remove them: musterctl nodes lists them")
        }
        "node selector or affinity" => format!(
            "{nodes} do not match the pods' nodeSelector or affinity: change it, or label them"
        ),
        "pod affinity" => format!(
            "pods on {nodes} are in the way of the pods' affinity or anti-affinity: loosen it"
        ),
        "host port taken" => {
            format!("the pods' hostPort is taken on {nodes}: use another, or none")
        }
        "no pod slot" => {
            format!("{nodes} have as many pods as they take: raise the kubelet's maxPods")
        }
        "volume" => {
            format!("volumes of the pods cannot be reached from {nodes}: see their node affinity")
        }
        "worker label" => format!("{nodes} are not marked as workers for such pods: label them"),
        "kind of device" => {
            format!("{nodes} cut their devices in another way than the pods ask for")
        }
        "queue over capacity" => "its queue is full: see the limit above".to_owned(),
        _ if why.starts_with("no ring of NPUs") => {
            format!(
                "{nodes} have NPUs, but not in one ring: ask for 1, 2 or 4 of them, or for all of a node"
            )
        }
        _ if why.starts_with("device claim (") => {
            format!(
                "devices that the claim wants on {nodes} are taken or too few: wait, or ask for others"
            )
        }
        _ => {
            let state = why.strip_prefix("node is ")?;
            let help =
                if state == "unschedulable" { "kubectl uncordon" } else { "kubectl describe node" };
            format!("{nodes}: {why} ({help})")
        }
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use muster_scheduler::reason::NodeRefusal;
    use muster_scheduler::snapshot::Dimensions;

    use super::*;

    #[test]
    fn what_the_engine_says_of_nodes_is_known_here() {
        let claim = NodeRefusal::DeviceClaim { asked: 2, matching: 2, free: 1 };
        let refusals = [
            NodeRefusal::Taint,
            NodeRefusal::NodeAffinity,
            NodeRefusal::PodAffinity,
            NodeRefusal::Ports,
            NodeRefusal::PodSlots,
            NodeRefusal::Volume,
            NodeRefusal::WorkerLabel,
            NodeRefusal::DeviceKind,
            NodeRefusal::OverCapacity,
            NodeRefusal::NodeState("not ready"),
            NodeRefusal::Ring,
            claim,
        ];
        for refusal in refusals {
            let text = refusal.text(&Dimensions::default());
            assert!(node(&text, 3).is_some(), "{text}");
        }
        assert_eq!(node("insufficient cpu", 3), None);
    }
}
