//! `queues`: who may have what, has what and asks for what.

use std::collections::BTreeMap;
use std::io::Write;

use muster_scheduler::decisions::Share;
use muster_scheduler::framework::Registry;
use muster_scheduler::plugin::proportion::{division::reported, impossible_jobs};
use muster_scheduler::session::Session;
use muster_scheduler::snapshot::{
    Dimensions, FIRST_KIND, JobId, NOTHING, Quantities, QueueId, ROOT, Snapshot, Status, plus,
};
use muster_scheduler::state::Gang;
use serde::Serialize;

use super::for_programs;
use super::kinds::Scope;
use super::table::{Table, number};
use super::world::World;
use crate::args::{QueuesArgs, Show};
use crate::{Failure, note};

/// Bytes of a gibibyte.
const GIB: f64 = 1_073_741_824.0;
/// How far a queue is below its parent, on paper.
const STEP: &str = "  ";

/// A queue's numbers, sums of all below it included.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueRow {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<String>,
    /// 0 has no queue above it.
    pub(crate) depth: usize,
    pub(crate) priority: i64,
    /// What is its own; -1 is without end.
    pub(crate) quota: Amounts,
    /// What it cannot go above; -1 is without end.
    pub(crate) limit: Amounts,
    /// What it should have while all ask for what they ask for now.
    pub(crate) fair_share: Amounts,
    /// What its pods have.
    pub(crate) allocated: Amounts,
    /// What its pods have and wait for.
    pub(crate) requested: Amounts,
    /// Groups of it that have pods that wait.
    pub(crate) waiting_groups: usize,
}

/// Accelerators, processors, gibibytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Amounts {
    /// Of all kinds.
    pub(crate) devices: f64,
    pub(crate) cpus: f64,
    pub(crate) memory_gib: f64,
    /// Accelerators by kind, where the cluster has several.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) kinds: BTreeMap<String, f64>,
}

pub(crate) fn queues(args: &QueuesArgs, out: &mut dyn Write) -> Result<bool, Failure> {
    let world = World::of(&args.engine, &args.cluster, Scope::Room)?;
    let snapshot = world.snapshot();
    for bad in snapshot.left_out.iter().filter(|bad| bad.object.starts_with("Queue ")) {
        note(format_args!("left out: {}: {}", bad.object, bad.why));
    }
    let session = Session::open(&snapshot, &world.config, &Registry::default());
    let mut rows = rows(&session);
    if let Some(name) = &args.name {
        rows = below(rows, name);
        if rows.is_empty() {
            return Err(Failure::Usage(format!(
                "there is no queue {name}: `musterctl queues` lists all"
            )));
        }
    }
    if rows.is_empty() {
        note("there are no queues: see docs/pod-groups.md for how to set them up");
    }
    if for_programs(&rows, args.output, out)? {
        return Ok(false);
    }
    print(&rows, args.output == Show::Wide, out)?;
    Ok(false)
}

/// Every queue, each after its parent, those of one parent by name.
pub(crate) fn rows(session: &Session<'_>) -> Vec<QueueRow> {
    let snapshot = session.snapshot;
    let (requested, waiting) = sums(session);
    let mut rows = Vec::new();
    let roots = snapshot.queues.entries().filter(|(_, queue)| queue.parent.is_none());
    let mut next: Vec<(QueueId, usize)> = roots.map(|(id, _)| (id, 0)).collect();
    next.reverse();
    while let Some((id, depth)) = next.pop() {
        let queue = &snapshot.queues[id];
        let of = |sums: &[Quantities]| sums.get(id.0 as usize).copied().unwrap_or(NOTHING);
        let mut fair = session.fair_share(id).unwrap_or(NOTHING);
        fair.iter_mut().skip(FIRST_KIND).for_each(|devices| *devices = reported(*devices));
        let amounts = |of: Quantities| Amounts::new(&of, &snapshot.dimensions);
        rows.push(QueueRow {
            name: queue.name.clone(),
            parent: queue.parent.map(|parent| snapshot.queues[parent].name.clone()),
            depth,
            priority: queue.priority,
            quota: amounts(queue.deserved),
            limit: amounts(queue.limit),
            fair_share: amounts(fair),
            allocated: amounts(session.queue_allocated(id).unwrap_or(NOTHING)),
            requested: amounts(of(&requested)),
            waiting_groups: waiting.get(id.0 as usize).copied().unwrap_or(0),
        });
        next.extend(queue.children.iter().rev().map(|child| (*child, depth + 1)));
    }
    rows
}

/// By queue: what pods have and wait for, and how many groups wait.
fn sums(session: &Session<'_>) -> (Vec<Quantities>, Vec<usize>) {
    let snapshot = session.snapshot;
    let mut requested = vec![NOTHING; snapshot.queues.len()];
    let impossible = impossible_jobs(snapshot);
    let mut waiting = vec![0; snapshot.queues.len()];
    for (id, task) in snapshot.tasks.entries() {
        let (Some(job), Some(_)) = (task.job, task.pod_set) else { continue };
        let state = &session.state.tasks[id];
        let amount = match state.status {
            status if status.is_active() => state.accepted,
            // What can never run asks for nothing that others could have.
            Status::Pending if impossible.contains(&job) => continue,
            Status::Pending => session.task_request(id),
            _ => continue,
        };
        for queue in up(snapshot, snapshot.jobs[job].queue) {
            if let Some(sum) = requested.get_mut(queue.0 as usize) {
                *sum = plus(*sum, amount);
            }
        }
    }
    for (id, job) in snapshot.jobs.entries() {
        if session.state.jobs[id].pending > 0 {
            for queue in up(snapshot, job.queue) {
                if let Some(count) = waiting.get_mut(queue.0 as usize) {
                    *count += 1;
                }
            }
        }
    }
    (requested, waiting)
}

fn up(snapshot: &Snapshot, queue: Option<QueueId>) -> impl Iterator<Item = QueueId> {
    std::iter::successors(queue, |queue| snapshot.queues[*queue].parent)
}

/// A place in a line: the first is tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Position {
    pub(crate) place: usize,
    pub(crate) of: usize,
}

/// The places of groups among those of their queue that wait. What has too few pods to be tried is in no line.
pub(crate) fn positions(session: &Session<'_>) -> BTreeMap<JobId, Position> {
    let mut lines: BTreeMap<QueueId, Vec<Gang>> = BTreeMap::new();
    for (id, job) in session.snapshot.jobs.entries() {
        let gang = Gang::whole(id);
        let Some(queue) = job.queue else { continue };
        if session.state.jobs[id].pending > 0 && session.is_ready(&gang, ROOT) {
            lines.entry(queue).or_default().push(gang);
        }
    }
    let mut positions = BTreeMap::new();
    for mut line in lines.into_values() {
        line.sort_by(|left, right| session.job_order(left, right));
        let of = line.len();
        let places = line.iter().enumerate();
        positions.extend(places.map(|(at, gang)| (gang.job, Position { place: at + 1, of })));
    }
    positions
}

/// A queue and those below it, none if there is no such queue.
fn below(rows: Vec<QueueRow>, name: &str) -> Vec<QueueRow> {
    let mut depth = None;
    rows.into_iter()
        .skip_while(|row| row.name != name)
        .take_while(|row| match depth {
            None => {
                depth = Some(row.depth);
                true
            }
            Some(top) => row.depth > top,
        })
        .collect()
}

fn print(rows: &[QueueRow], wide: bool, out: &mut dyn Write) -> std::io::Result<()> {
    let name = |row: &QueueRow| format!("{}{}", STEP.repeat(row.depth), row.name);
    let several = rows.iter().any(|row| !row.allocated.kinds.is_empty());
    if !wide && several {
        let head = ["QUEUE", "OF", ">QUOTA", ">LIMIT", ">FAIR", ">USED", ">ASKED", ">WAIT"];
        let mut table = Table::new(head);
        for row in rows {
            for (at, [kind, quota, limit, fair, used, asked]) in
                row.device_lines().into_iter().enumerate()
            {
                let once = |text: String| if at == 0 { text } else { String::new() };
                let waiting = once(row.waiting_groups.to_string());
                table.push([once(name(row)), kind, quota, limit, fair, used, asked, waiting]);
            }
        }
        return table.print(true, out);
    }
    if !wide {
        let head = ["QUEUE", ">QUOTA", ">LIMIT", ">FAIR", ">USED", ">ASKED", ">WAIT"];
        let mut table = Table::new(head);
        for row in rows {
            let devices = |amounts: &Amounts| number(amounts.devices);
            table.push([
                name(row),
                devices(&row.quota),
                devices(&row.limit),
                devices(&row.fair_share),
                devices(&row.allocated),
                devices(&row.requested),
                row.waiting_groups.to_string(),
            ]);
        }
        return table.print(true, out);
    }
    let head =
        ["QUEUE", "OF", ">QUOTA", ">LIMIT", ">FAIR", ">USED", ">ASKED", ">WAIT", ">PRIORITY"];
    let mut table = Table::new(head);
    for row in rows {
        for (at, [kind, quota, limit, fair, used, asked]) in row.lines().into_iter().enumerate() {
            let once = |text: String| if at == 0 { text } else { String::new() };
            let waiting = once(row.waiting_groups.to_string());
            let priority = once(row.priority.to_string());
            table.push([once(name(row)), kind, quota, limit, fair, used, asked, waiting, priority]);
        }
    }
    table.print(false, out)
}

// === impl QueueRow ===

impl QueueRow {
    /// For each thing that queues share: its name, quota, limit, fair share, what they have, what they ask for.
    pub(crate) fn lines(&self) -> Vec<[String; 6]> {
        let mut lines = self.device_lines();
        lines.push(self.line("cpus", |amounts| amounts.cpus));
        lines.push(self.line("memory GiB", |amounts| amounts.memory_gib));
        lines
    }

    /// The same for accelerators alone: a line for each kind.
    fn device_lines(&self) -> Vec<[String; 6]> {
        if self.allocated.kinds.is_empty() {
            return vec![self.line("devices", |amounts| amounts.devices)];
        }
        let kinds = self.allocated.kinds.keys();
        kinds.map(|kind| self.line(kind, |amounts| amounts.of(Some(kind)))).collect()
    }

    fn line(&self, kind: &str, amount: impl Fn(&Amounts) -> f64) -> [String; 6] {
        let of = [&self.quota, &self.limit, &self.fair_share, &self.allocated, &self.requested];
        let [quota, limit, fair, used, asked] = of.map(|amounts| number(amount(amounts)));
        [kind.to_owned(), quota, limit, fair, used, asked]
    }
}

// === impl Amounts ===

impl Amounts {
    fn new(of: &Quantities, dimensions: &Dimensions) -> Self {
        let part = |amount: f64, of: f64| if amount < 0.0 { -1.0 } else { amount / of };
        let share = Share::new(of, dimensions);
        Self {
            devices: share.gpu,
            cpus: part(share.cpu, 1000.0),
            memory_gib: part(share.memory, GIB),
            kinds: share.kinds,
        }
    }

    /// Accelerators of a kind; of all, where there is one kind.
    pub(crate) fn of(&self, kind: Option<&str>) -> f64 {
        kind.and_then(|kind| self.kinds.get(kind)).copied().unwrap_or(self.devices)
    }
}
