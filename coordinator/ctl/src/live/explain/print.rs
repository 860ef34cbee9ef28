//! An explanation for people.

use std::collections::BTreeMap;
use std::io::{self, Write};

use jiff::{SignedDuration, Timestamp};
use muster_scheduler::reason::Reason;

use super::super::table::{Table, paragraph};
use super::facts::{Answer, GroupFacts, PodFacts, RunState};
use super::recorded::Recorded;

/// How wide the column of headings is.
const MARGIN: usize = 11;
/// How many groups are told about; wide tells of all.
const GROUPS: usize = 5;
/// How many pods are listed; wide lists all.
const PODS: usize = 10;

pub(super) fn print(answer: &Answer, wide: bool, out: &mut dyn Write) -> io::Result<()> {
    let Answer { kind, namespace, name, groups, loose, .. } = answer;
    writeln!(out, "{kind} {namespace}/{name} {}", headline(answer))?;
    let several = groups.len() > 1;
    let (short, long): (Vec<&GroupFacts>, Vec<&GroupFacts>) =
        groups.iter().partition(|group| several && !wide && group.state.is_well());
    let most = if wide { long.len() } else { GROUPS };
    for group in long.iter().take(most) {
        writeln!(out)?;
        one(answer, group, wide, out)?;
    }
    if !short.is_empty() || long.len() > most {
        writeln!(out)?;
        field("BESIDE", &beside(&short, long.len().saturating_sub(most)), out)?;
    }
    if answer.search_left_out {
        writeln!(out)?;
        let text = "only free room was looked at, not whether others could make room: raise --search-timeout";
        field("NOTE", text, out)?;
    }
    if let Some(why) = &answer.engine_not_run {
        writeln!(out)?;
        field("NOTE", &format!("the engine was not run, only records were read: {why}"), out)?;
    }
    if !loose.is_empty() {
        writeln!(out)?;
        field("GROUP", "none: the scheduler places pods of pod groups only", out)?;
        pods(loose, wide, out)?;
    }
    help(&answer.help, out)
}

/// Groups that are not told about one by one.
fn beside(well: &[&GroupFacts], more: usize) -> String {
    let mut texts = Vec::new();
    if !well.is_empty() {
        texts.push(format!("{} groups run or are placed in the next cycle", well.len()));
    }
    if more > 0 {
        texts.push(format!("{more} more groups wait"));
    }
    format!("{}: -o wide tells of each", texts.join(", "))
}

fn headline(answer: &Answer) -> String {
    let states: Vec<RunState> = answer
        .groups
        .iter()
        .map(|group| group.state)
        .chain(answer.loose.iter().map(|pod| pod.state))
        .collect();
    let Some(worst) = states.iter().max_by_key(|state| weight(**state)) else {
        return "has no pods".to_owned();
    };
    let all: Vec<&PodFacts> =
        answer.groups.iter().flat_map(|group| &group.pods).chain(&answer.loose).collect();
    let nodes: Vec<&str> =
        all.iter().map(|pod| pod.node.as_str()).filter(|node| !node.is_empty()).collect();
    match (worst, all.as_slice()) {
        (RunState::Runs, [pod]) if pod.status != "Running" => {
            format!("is bound to node {}", pod.node)
        }
        (RunState::Runs, [pod]) => format!("runs on node {}", pod.node),
        (RunState::Runs, _) => format!("runs: {} of {} pods have a node", nodes.len(), all.len()),
        (RunState::Ended, _) => "has ended".to_owned(),
        (RunState::Placed, _) => "is placed in the scheduler's next cycle".to_owned(),
        (RunState::Promised, _) => "waits for others to leave".to_owned(),
        (RunState::Waits, _) => match answer.groups.iter().find_map(|group| group.now.as_ref()) {
            Some(waiting) => format!("does not run: {:?}", waiting.reason),
            None => match answer.groups.iter().find_map(|group| group.recorded.first()) {
                Some(record) => format!("does not run: {}, as recorded", record.reason),
                None => "does not run".to_owned(),
            },
        },
        (RunState::NoPods, [pod]) => format!("does not run: it is {}", pod.status),
        (RunState::NoPods, _) => "has no pods that could run".to_owned(),
        (RunState::PassedOver, _) => "does not run: the scheduler passes it over".to_owned(),
    }
}

fn weight(state: RunState) -> u8 {
    match state {
        RunState::Ended => 0,
        RunState::Runs => 1,
        RunState::Placed => 2,
        RunState::Promised => 3,
        RunState::NoPods => 4,
        RunState::Waits => 5,
        RunState::PassedOver => 6,
    }
}

fn one(answer: &Answer, group: &GroupFacts, wide: bool, out: &mut dyn Write) -> io::Result<()> {
    if answer.kind != "PodGroup" {
        field("GROUP", &format!("PodGroup {}/{}", group.namespace, group.name), out)?;
    }
    if let Some(why) = &group.passed_over {
        field("WHY", why, out)?;
    }
    if let Some(waiting) = &group.now {
        let at = answer.at.strftime("%Y-%m-%dT%H:%M:%SZ");
        field("WHY", &format!("{:?}, by the engine at {at}", waiting.reason), out)?;
        paragraph(&waiting.message, MARGIN, out)?;
        if waiting.needed > 0 && waiting.reason != Reason::NotEnoughPods {
            let tried = format!("{} of {} pods placed", waiting.placed, waiting.needed);
            field("TRIED", &tried, out)?;
        }
        let mut counts: Vec<(&String, &u32)> = waiting.nodes.iter().collect();
        counts.sort_by(|left, right| right.1.cmp(left.1).then(left.0.cmp(right.0)));
        for (at, (why, count)) in counts.into_iter().enumerate() {
            field(if at == 0 { "NODES" } else { "" }, &format!("{count} × {why}"), out)?;
        }
    }
    let unsaid = group.now.is_some() || answer.engine_not_run.is_some();
    records(&group.recorded, answer.at, unsaid, out)?;
    for (at, leaving) in group.leaving.iter().enumerate() {
        field(if at == 0 { "LEAVING" } else { "" }, leaving, out)?;
    }
    queue(group, out)?;
    pods(&group.pods, wide, out)?;
    help(&group.help, out)
}

fn records(
    recorded: &[Recorded],
    now: Timestamp,
    waits: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    if recorded.is_empty() && waits {
        return field("RECORDED", "nothing: no coordinator has noted a reason yet", out);
    }
    for record in recorded {
        let who = match record.at {
            "status.conditions" => "the coordinator".to_owned(),
            _ if record.node_pool.is_empty() => "KAI".to_owned(),
            _ => format!("KAI, node pool {}", record.node_pool),
        };
        let since = record
            .since
            .map(|since| format!(", since {since} ({} ago)", age(now.duration_since(since))));
        let text = format!(
            "{}={} {}, by {who}{}",
            record.kind,
            record.status,
            record.reason,
            since.unwrap_or_default()
        );
        field("RECORDED", &text, out)?;
        if !record.message.is_empty() {
            paragraph(&record.message, MARGIN, out)?;
        }
    }
    Ok(())
}

fn queue(group: &GroupFacts, out: &mut dyn Write) -> io::Result<()> {
    let text = match group.position {
        Some(position) => {
            format!(
                "{}: number {} of {} groups that wait",
                group.queue, position.place, position.of
            )
        }
        None if group.now.is_some() => format!("{}: not in line", group.queue),
        None => group.queue.clone(),
    };
    field("QUEUE", &text, out)?;
    if group.queues.is_empty() {
        return Ok(());
    }
    let head = ["", "OF", ">QUOTA", ">LIMIT", ">FAIR", ">USED", ">ASKED"];
    let mut table = Table::new(head);
    for row in &group.queues {
        for (at, [kind, quota, limit, fair, used, asked]) in row.lines().into_iter().enumerate() {
            // Queues above are told for devices alone.
            if at > 0 && row.name != group.queue {
                continue;
            }
            let name = if at == 0 { row.name.clone() } else { String::new() };
            table.push([name, kind, quota, limit, fair, used, asked]);
        }
    }
    let mut text = Vec::new();
    table.print(true, &mut text)?;
    for line in String::from_utf8_lossy(&text).lines() {
        writeln!(out, "{:MARGIN$}{line}", "")?;
    }
    Ok(())
}

/// How many pods are how far; those with a node or something to be told, by name.
fn pods(pods: &[PodFacts], wide: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in pods {
        *counts.entry(pod.status).or_default() += 1;
    }
    let counts: Vec<String> =
        counts.iter().map(|(status, count)| format!("{count} {status}")).collect();
    let text = if counts.is_empty() { "none".to_owned() } else { counts.join(", ") };
    field("PODS", &text, out)?;
    let most = if wide { pods.len() } else { PODS };
    for pod in pods.iter().take(most) {
        let mut line = format!("{} {}", pod.name, pod.status);
        if !pod.node.is_empty() {
            line.push_str(&format!(" on {}", pod.node));
        }
        if !pod.next.is_empty() {
            line.push_str(&format!(", next on {}", pod.next));
        }
        if !pod.note.is_empty() {
            line.push_str(&format!(" ({})", pod.note));
        }
        paragraph(&line, MARGIN, out)?;
    }
    if pods.len() > most {
        paragraph(&format!("and {} more: -o wide lists all", pods.len() - most), MARGIN, out)?;
    }
    Ok(())
}

fn help(help: &[String], out: &mut dyn Write) -> io::Result<()> {
    for (at, text) in help.iter().enumerate() {
        field(if at == 0 { "HELPS" } else { "" }, &format!("- {text}"), out)?;
    }
    Ok(())
}

/// A heading and text beside it.
fn field(name: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = Vec::new();
    paragraph(text, MARGIN, &mut lines)?;
    let lines = String::from_utf8_lossy(&lines);
    let rest = lines.get(MARGIN..).unwrap_or_default();
    write!(out, "{name:MARGIN$}{rest}")
}

/// A span as people say it.
fn age(span: SignedDuration) -> String {
    let seconds = span.as_secs().max(0);
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7199 => format!("{}m", seconds / 60),
        7200..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
