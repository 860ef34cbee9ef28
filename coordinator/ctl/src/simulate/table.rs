//! Decisions for people: what binds where, what waits and why, who is evicted for whom, fair shares.

use std::io::{self, Write};

use muster_scheduler::decisions::{Action, Share};

use super::Cycle;

pub(super) fn print(cycles: &[Cycle], out: &mut dyn Write) -> io::Result<()> {
    for (at, cycle) in cycles.iter().enumerate() {
        if cycles.len() > 1 {
            writeln!(out, "{}CYCLE {}", if at > 0 { "\n" } else { "" }, at + 1)?;
        }
        one(cycle, out)?;
    }
    Ok(())
}

fn one(cycle: &Cycle, out: &mut dyn Write) -> io::Result<()> {
    let decisions = &cycle.decisions;
    let placed = decisions.decisions.iter().filter(|decision| decision.action != Action::Evict);
    let rows = placed.map(|decision| {
        let when = match decision.action {
            Action::Bind => "now",
            _ => "when others have left",
        };
        vec![
            decision.pod.clone(),
            decision.node.clone(),
            when.to_owned(),
            decision.gpu_groups.join(","),
        ]
    });
    section(out, ["POD", "NODE", "RUNS", "SHARED DEVICES"], rows.collect())?;
    let evicted = decisions
        .decisions
        .iter()
        .filter_map(|decision| Some((decision, decision.eviction.as_ref()?)));
    let rows = evicted.map(|(decision, why)| {
        let whom = why.beneficiary.clone().unwrap_or_else(|| "-".to_owned());
        let what =
            if why.moved { format!("{} (moves)", why.action) } else { why.action.to_owned() };
        vec![decision.pod.clone(), decision.node.clone(), whom, format!("{what}: {}", why.lawful)]
    });
    section(out, ["EVICTED", "FROM", "FOR", "WHY"], rows.collect())?;
    let rows = decisions.reasons.iter().map(|(group, waiting)| {
        let mut why = waiting.message.clone();
        if !waiting.nodes.is_empty() {
            let nodes: Vec<_> =
                waiting.nodes.iter().map(|(why, count)| format!("{count} × {why}")).collect();
            why = format!("{why} [{}]", nodes.join(", "));
        }
        vec![group.clone(), waiting.pods.to_string(), format!("{:?}", waiting.reason), why]
    });
    section(out, ["WAITS", "PODS", "REASON", "WHY"], rows.collect())?;
    let rows = decisions.remarks.iter().flat_map(|(group, remarks)| {
        remarks
            .iter()
            .map(|remark| vec![group.clone(), remark.clone(), String::new(), String::new()])
    });
    section(out, ["REMARK ON", "", "", ""], rows.collect())?;
    let rows = decisions.fair_share.iter().map(|(queue, share)| {
        let gib = share.memory / f64::from(1 << 30);
        vec![
            queue.clone(),
            devices(share),
            format!("{:.1}", share.cpu / 1000.0),
            format!("{gib:.1}"),
        ]
    });
    section(out, ["QUEUE", "FAIR SHARE: DEVICES", "CPUS", "MEMORY GIB"], rows.collect())?;
    let count =
        |action| decisions.decisions.iter().filter(|decision| decision.action == action).count();
    writeln!(
        out,
        "{} bound, {} promised, {} evicted, {} groups wait; {:.1} ms",
        count(Action::Bind),
        count(Action::Pipeline),
        count(Action::Evict),
        decisions.reasons.len(),
        cycle.cycle_ms
    )
}

/// Accelerators, each kind by itself where there are several.
fn devices(share: &Share) -> String {
    if share.kinds.is_empty() {
        return share.gpu.to_string();
    }
    let kinds = share.kinds.iter().map(|(kind, devices)| format!("{devices} {kind}"));
    kinds.collect::<Vec<_>>().join(", ")
}

/// Columns as wide as what is in them; nothing if there are no rows.
fn section(out: &mut dyn Write, head: [&str; 4], rows: Vec<Vec<String>>) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let head = head.map(str::to_owned).to_vec();
    let mut widths = vec![0; head.len()];
    for row in std::iter::once(&head).chain(&rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in std::iter::once(&head).chain(&rows) {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(out)
}
