//! The page: who leads, how ModelServings and TrainJobs stand, which groups have their tables, which nodes have agents.

use std::fmt::Write;

use muster_program::page::{STYLE, escape};

use super::Snapshot;
use crate::ranktables::conditions::{RANKTABLE_DELIVERED, reason};

/// No table on the page has more rows; JSON has them all.
const MOST: usize = 500;

/// The same for ModelServings, of which each has many groups.
const MOST_SERVINGS: usize = 200;

/// The page of this moment.
pub(super) fn render(now: &Snapshot) -> String {
    let mut page = String::with_capacity(16 * 1024);
    let name = escape(&now.identity);
    let role = match (now.epoch, &now.leader) {
        (Some(epoch), _) => format!("<span class=\"good\">leads</span> in epoch {epoch}"),
        (None, Some(leader)) => format!("stands by; the leader is {}", escape(leader)),
        (None, None) => "<span class=\"odd\">stands by; nobody is known to lead</span>".to_owned(),
    };
    let ready = if now.ready { "" } else { " · <span class=\"bad\">not ready</span>" };
    // Writing into a String cannot fail, here and below.
    let _written = write!(
        page,
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><meta http-equiv=\"refresh\" content=\"5\">\
         <title>{name} · muster-coordinator</title><style>{STYLE}</style><h1>{name}</h1>\
         <p>{role}{ready} · muster-coordinator {} since {} · <a href=\"/v1\">JSON</a> · \
         <a href=\"/metrics\">metrics</a></p>",
        now.version,
        now.started.strftime("%Y-%m-%d %H:%M:%S UTC"),
    );
    scheduler(&mut page, now);
    servings(&mut page, now);
    jobs(&mut page, now);
    groups(&mut page, now);
    nodes(&mut page, now);
    page.push_str("</html>\n");
    page
}

/// Which configuration the scheduler obeys.
fn scheduler(page: &mut String, now: &Snapshot) {
    let Some(scheduler) = &now.scheduler else { return };
    let _written = write!(page, "<p>scheduler: {}", escape(&scheduler.source));
    if let Some(field) = scheduler.paused {
        let _written =
            write!(page, " · <span class=\"bad\">paused: kai-config, {field} is false</span>");
    }
    if let Some(problem) = &scheduler.problem {
        let _written = write!(
            page,
            " · <span class=\"bad\">the shard is not obeyed: {}</span>",
            escape(problem)
        );
    }
    if let Some(ignored) = &scheduler.ignored {
        let _written = write!(
            page,
            " · <span class=\"bad\">kai-config is not obeyed in all: {}</span>",
            escape(ignored)
        );
    }
    page.push_str("</p>");
}

/// Nothing is said where there are none: not every cluster has the kind.
fn servings(page: &mut String, now: &Snapshot) {
    if now.servings.is_empty() {
        return;
    }
    page.push_str(
        "<h2>ModelServings</h2><table><tr><th>name<th>written as<th>groups ready<th>pods\
         <th>rank tables<th>state",
    );
    for serving in now.servings.iter().take(MOST_SERVINGS) {
        let (class, word) = match &serving.trouble {
            Some(_) => ("bad", "trouble"),
            None if serving.complete() => ("good", "ready"),
            None => ("odd", "on its way"),
        };
        let tables = match serving.rank_groups {
            0 => "-".to_owned(),
            wanted => format!("{} of {wanted}", serving.tables),
        };
        let _written = write!(
            page,
            "<tr><td>{}/{}<td>{}<td>{} of {}<td>{}<td>{tables}<td><span class=\"{class}\">{word}</span> {}",
            escape(&serving.namespace),
            escape(&serving.name),
            serving.api_version,
            serving.ready_groups,
            serving.groups,
            serving.pods,
            escape(serving.trouble.as_deref().unwrap_or_default()),
        );
    }
    page.push_str("</table>");
    more(page, now.servings.len(), MOST_SERVINGS);
}

/// As with ModelServings.
fn jobs(page: &mut String, now: &Snapshot) {
    if now.jobs.is_empty() {
        return;
    }
    page.push_str("<h2>TrainJobs</h2><table><tr><th>name<th>runtime<th>jobs ready<th>state");
    for job in now.jobs.iter().take(MOST) {
        let (class, word) = match (&job.trouble, job.state) {
            (Some(_), _) => ("bad", "trouble"),
            (None, "Failed") => ("bad", "Failed"),
            (None, "Complete") => ("good", "Complete"),
            (None, state) => ("odd", state),
        };
        let _written = write!(
            page,
            "<tr><td>{}/{}<td>{}<td>{}<td><span class=\"{class}\">{word}</span> {}",
            escape(&job.namespace),
            escape(&job.name),
            escape(&job.runtime),
            job.ready,
            escape(job.trouble.as_deref().unwrap_or_default()),
        );
    }
    page.push_str("</table>");
    more(page, now.jobs.len(), MOST);
}

fn groups(page: &mut String, now: &Snapshot) {
    page.push_str("<h2>Rank groups</h2>");
    if now.groups.is_empty() {
        let why = match now.epoch {
            Some(_) => "No pod carries the label muster.dev/rank-group.",
            None => "Only the leader knows them: ask it.",
        };
        let _written = write!(page, "<p class=\"none\">{why}</p>");
        return;
    }
    page.push_str("<table><tr><th>group<th>pods<th>generation<th>delivered<th>state");
    for group in now.groups.iter().take(MOST) {
        let there = group.delivered == group.receivers;
        let class = match () {
            () if group.ready && there => "good",
            () if reason::STUCK.contains(&group.reason.as_str()) => "bad",
            () => "odd",
        };
        // Once there is a table, what matters is who lacks it.
        let told = group.conditions.iter().find(|one| one.kind == RANKTABLE_DELIVERED);
        let (word, message) = match told.filter(|_| group.ready && !there) {
            Some(told) => (&told.reason, &told.message),
            None => (&group.reason, &group.message),
        };
        let delivered = match group.receivers {
            0 => "-".to_owned(),
            receivers => format!("{} of {receivers}", group.delivered),
        };
        let _written = write!(
            page,
            "<tr><td>{}/{}<td>{}<td>{}<td>{delivered}<td><span class=\"{class}\">{}</span> {}",
            escape(&group.namespace),
            escape(&group.name),
            group.pods,
            group.generation,
            escape(word),
            escape(message),
        );
    }
    page.push_str("</table>");
    more(page, now.groups.len(), MOST);
}

fn nodes(page: &mut String, now: &Snapshot) {
    page.push_str("<h2>Nodes</h2>");
    if now.nodes.is_empty() {
        page.push_str("<p class=\"none\">No agent has reported.</p>");
        return;
    }
    page.push_str("<table><tr><th>node<th>agent<th>server_id<th>devices<th>faulty");
    for node in now.nodes.iter().take(MOST) {
        let agent = match (&node.agent, node.linked) {
            (Some(version), true) => escape(version),
            _ => "<span class=\"bad\">away</span>".to_owned(),
        };
        let faulty = if node.faulty > 0 { "bad" } else { "none" };
        let _written = write!(
            page,
            "<tr><td>{}<td>{agent}<td>{}<td>{}<td><span class=\"{faulty}\">{}</span>",
            escape(&node.name),
            escape(node.server_id.as_deref().unwrap_or("?")),
            node.devices,
            node.faulty,
        );
    }
    page.push_str("</table>");
    more(page, now.nodes.len(), MOST);
}

fn more(page: &mut String, count: usize, most: usize) {
    if count > most {
        let _written = write!(page, "<p class=\"none\">and {} more, see JSON</p>", count - most);
    }
}

#[cfg(test)]
mod tests;
