//! What is so: how far pods are, what the engine says of a group, where it stands in its queue.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_scheduler::config::Config;
use muster_scheduler::decisions::{Action, Decision, Decisions};
use muster_scheduler::framework::Registry;
use muster_scheduler::input::{Phase, Pod};
use muster_scheduler::reason::Waiting;
use muster_scheduler::session::Session;
use muster_scheduler::snapshot::{JobId, Snapshot, TaskId};
use serde::Serialize;
use serde_json::Value as Json;

use super::super::queues::{self, Position, QueueRow};
use super::super::world::World;
use super::advice;
use super::find::{Groups, Subject, text};
use super::ran::Ran;
use super::recorded::{Recorded, recorded};

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum RunState {
    /// It runs, or is bound and about to.
    Runs,
    /// It has ended well.
    Ended,
    /// It gets its nodes in the next cycle.
    Placed,
    /// It gets its nodes as soon as others have left them.
    Promised,
    Waits,
    /// It has no pods that could run.
    NoPods,
    /// The scheduler passes it over.
    PassedOver,
}

/// The answer to `explain`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Whether all of it runs, has ended well, or gets its nodes in the next cycle.
    pub(crate) runs: bool,
    /// The instant of what was looked at.
    pub(crate) at: Timestamp,
    /// Why the engine was not run, if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) engine_not_run: Option<String>,
    /// Whether nobody looked for pods that could make room.
    pub(crate) search_left_out: bool,
    pub(crate) groups: Vec<GroupFacts>,
    /// Pods that are in no group.
    pub(crate) loose: Vec<PodFacts>,
    /// What would help where there is no group.
    pub(crate) help: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupFacts {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) queue: String,
    #[serde(rename = "standing")]
    pub(crate) state: RunState,
    /// What the coordinator and KAI recorded.
    pub(crate) recorded: Vec<Recorded>,
    /// What the engine says now, if something waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) now: Option<Waiting>,
    /// Why the scheduler does not look at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) passed_over: Option<String>,
    /// Pods that have to leave first, and why they may be made to.
    pub(crate) leaving: Vec<String>,
    /// Its place among the groups of its queue that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) position: Option<Position>,
    /// Its queue, and those above it.
    pub(crate) queues: Vec<QueueRow>,
    pub(crate) pods: Vec<PodFacts>,
    pub(crate) help: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodFacts {
    pub(crate) name: String,
    /// How far it is, as the engine names it.
    pub(crate) status: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) node: String,
    /// Where the next cycle puts it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) next: String,
    /// What else is to be known of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) note: String,
    #[serde(skip)]
    pub(crate) state: RunState,
}

/// All that answers are made of.
pub(super) struct Facts<'a> {
    pub(super) world: &'a World,
    pub(super) session: &'a Session<'a>,
    pub(super) decisions: &'a Decisions,
    tasks: BTreeMap<(&'a str, &'a str), TaskId>,
    groups: Groups<'a>,
    jobs: BTreeMap<(&'a str, &'a str), JobId>,
    queues: Vec<QueueRow>,
    positions: BTreeMap<JobId, Position>,
    /// Where the next cycle puts pods.
    next: BTreeMap<&'a str, &'a Decision>,
}

/// Answers, with what the engine has decided.
pub(crate) fn answer(world: &World, subject: &Subject, ran: &Ran) -> Answer {
    let snapshot = world.snapshot();
    let config: &Config = &world.config;
    let session = Session::open(&snapshot, config, &Registry::default());
    let facts = Facts::new(world, &session, &ran.decisions);
    Answer { search_left_out: ran.search_left_out, ..facts.answer(subject) }
}

// === impl RunState ===

impl RunState {
    /// Whether there is nothing to be done about it.
    pub(crate) fn is_well(self) -> bool {
        matches!(self, Self::Runs | Self::Ended | Self::Placed)
    }
}

// === impl Facts ===

impl<'a> Facts<'a> {
    fn new(world: &'a World, session: &'a Session<'a>, decisions: &'a Decisions) -> Self {
        let snapshot: &'a Snapshot = session.snapshot;
        let tasks = snapshot.tasks.entries();
        let tasks = tasks.map(|(id, task)| ((task.key.namespace(), task.key.name()), id));
        let jobs = snapshot.jobs.entries();
        let jobs = jobs.map(|(id, job)| ((job.namespace.as_str(), job.name.as_str()), id));
        let next = decisions.decisions.iter().filter(|decision| decision.action != Action::Evict);
        Self {
            world,
            session,
            decisions,
            tasks: tasks.collect(),
            groups: Groups::of(world),
            jobs: jobs.collect(),
            queues: queues::rows(session),
            positions: queues::positions(session),
            next: next.map(|decision| (decision.pod.as_str(), decision)).collect(),
        }
    }

    fn answer(&self, subject: &Subject) -> Answer {
        let input = &self.world.input;
        let pods: Vec<&Pod> = subject.pods.iter().filter_map(|at| input.pods.get(*at)).collect();
        let one = subject.kind == "Pod";
        let mut members: BTreeMap<Option<usize>, Vec<PodFacts>> = BTreeMap::new();
        for pod in &pods {
            members.entry(self.groups.find(pod)).or_default().push(self.pod(pod));
        }
        let mut of = |group: Option<usize>| members.remove(&group).unwrap_or_default();
        let groups: Vec<GroupFacts> =
            subject.groups.iter().filter_map(|at| self.group(*at, of(Some(*at)), one)).collect();
        let loose = of(None);
        let nothing = groups.is_empty() && loose.is_empty();
        let runs = !nothing
            && groups.iter().all(|group| group.state.is_well())
            && loose.iter().all(|pod| pod.state.is_well());
        let help = if nothing {
            advice::no_pods(subject)
        } else {
            advice::loose(self.world, &pods, &loose)
        };
        Answer {
            kind: subject.kind.clone(),
            namespace: subject.namespace.clone(),
            name: subject.name.clone(),
            runs,
            at: self.world.now,
            engine_not_run: self.world.partial.clone(),
            search_left_out: false,
            groups,
            loose,
            help,
        }
    }

    /// What is so of a group; of one pod of it if only that is asked about.
    fn group(&self, at: usize, pods: Vec<PodFacts>, one: bool) -> Option<GroupFacts> {
        let object = self.world.input.pod_groups.get(at)?;
        let (namespace, name) = (&object.metadata.namespace, &object.metadata.name);
        let written = self.world.beside.pod_group(namespace, name);
        let snapshot = self.session.snapshot;
        let found = self.jobs.get(&(namespace.as_str(), name.as_str()));
        let found = found.map(|id| (*id, &snapshot.jobs[*id]));
        let mut facts = GroupFacts {
            namespace: namespace.clone(),
            name: name.clone(),
            queue: found.map_or(&object.spec.queue, |(_, job)| &job.queue_name).clone(),
            state: RunState::PassedOver,
            recorded: written.map(recorded).unwrap_or_default(),
            now: None,
            passed_over: None,
            leaving: Vec::new(),
            position: None,
            queues: Vec::new(),
            pods,
            help: Vec::new(),
        };
        let Some((id, job)) = found else {
            let (why, help) = advice::passed_over(snapshot, object);
            facts.passed_over = Some(why);
            facts.help = help;
            return Some(facts);
        };
        let key = job.key();
        facts.queues = self.queues(id);
        facts.state = self.state(id, &facts.pods, one);
        if self.world.partial.is_some() {
            return Some(facts);
        }
        let waits = |pod: &PodFacts| matches!(pod.state, RunState::Waits | RunState::Promised);
        if facts.pods.iter().any(waits) {
            facts.now = self.decisions.reasons.get(&key).cloned();
            facts.position = self.positions.get(&id).copied();
        }
        let for_it = self.decisions.decisions.iter().filter_map(|decision| {
            let why = decision.eviction.as_ref()?;
            let is_for_it = why.beneficiary.as_deref() == Some(key.as_str());
            is_for_it.then(|| format!("{} on {}: {}", decision.pod, decision.node, why.lawful))
        });
        facts.leaving = for_it.collect();
        facts.help = advice::group(self, id, &facts);
        facts.help.extend(job.remarks.iter().cloned());
        Some(facts)
    }

    fn state(&self, id: JobId, pods: &[PodFacts], one: bool) -> RunState {
        if one && let [pod] = pods {
            return pod.state;
        }
        let has = |state: RunState| pods.iter().any(|pod| pod.state == state);
        let waits = has(RunState::Waits) || has(RunState::Promised) || has(RunState::Placed);
        let runs = has(RunState::Runs);
        match (waits, runs) {
            (false, true) => RunState::Runs,
            (false, false) if has(RunState::Ended) => RunState::Ended,
            (false, false) => RunState::NoPods,
            // It has what it needs; what waits is more than that.
            (true, true) if self.session.is_gang_satisfied(id) => RunState::Runs,
            (true, _) if has(RunState::Placed) => RunState::Placed,
            (true, _) if has(RunState::Promised) => RunState::Promised,
            (true, _) => RunState::Waits,
        }
    }

    fn queues(&self, id: JobId) -> Vec<QueueRow> {
        let snapshot = self.session.snapshot;
        let own = snapshot.jobs[id].queue;
        let up = std::iter::successors(own, |queue| snapshot.queues[*queue].parent);
        up.filter_map(|queue| {
            self.queues.iter().find(|row| row.name == snapshot.queues[queue].name).cloned()
        })
        .collect()
    }

    fn pod(&self, pod: &Pod) -> PodFacts {
        let (namespace, name) = (pod.metadata.namespace.as_str(), pod.metadata.name.as_str());
        let task = self.tasks.get(&(namespace, name)).map(|id| &self.session.snapshot.tasks[*id]);
        let request = self.world.beside.bind_request(namespace, name);
        let node = match (pod.spec.node_name.as_str(), request) {
            ("", Some(request)) => text(&request["spec"], "selectedNode"),
            (node, _) => node,
        };
        let status = task.map_or("Pending", |task| task.status.name());
        let waits = matches!(status, "Pending" | "Gated");
        let key = pod.key();
        let decided = self.next.get(key.as_str()).filter(|_| waits);
        let state = match (status, decided.map(|decision| decision.action)) {
            ("Succeeded", _) => RunState::Ended,
            ("Failed" | "Unknown" | "Releasing" | "StuckInReleasing", _) => RunState::NoPods,
            ("Pending" | "Gated", Some(Action::Bind)) => RunState::Placed,
            ("Pending" | "Gated", Some(_)) => RunState::Promised,
            ("Pending" | "Gated", None) => RunState::Waits,
            _ => RunState::Runs,
        };
        PodFacts {
            name: key,
            status,
            node: if waits { String::new() } else { node.to_owned() },
            next: decided.map(|decision| decision.node.clone()).unwrap_or_default(),
            note: note(pod, request, &self.world.schedulers),
            state,
        }
    }
}

/// What is to be known of a pod beside how far it is.
fn note(pod: &Pod, request: Option<&Json>, schedulers: &[String]) -> String {
    let mut notes = Vec::new();
    if pod.status.phase == Phase::Pending && pod.spec.node_name.is_empty() {
        if !schedulers.contains(&pod.spec.scheduler_name) {
            notes.push(format!("its scheduler is {}", pod.spec.scheduler_name));
        }
        let gates: Vec<&str> =
            pod.spec.scheduling_gates.iter().map(|gate| gate.name.as_str()).collect();
        if !gates.is_empty() {
            notes.push(format!("gates: {}", gates.join(", ")));
        }
        if let Some(request) = request {
            let status = &request["status"];
            if text(status, "phase") == "Failed" {
                let node = text(&request["spec"], "selectedNode");
                notes.push(format!("binding to {node} has failed: {}", text(status, "reason")));
            }
        }
    }
    if pod.metadata.deletion_timestamp.is_some() {
        notes.push("it is being deleted".to_owned());
    }
    notes.join("; ")
}
