//! Conditions, phases and reasons: every word by which an object says how it stands.

use anyhow::{Result, ensure};
use regex::Regex;

use super::{cell, code, head, root, row, source};

/// Where they are said.
const PARTS: [(&str, &[&str]); 6] = [
    (
        "Rank tables",
        &["coordinator/src/ranktables/conditions.rs", "coordinator/src/ranktables/events.rs"],
    ),
    ("TrainJob", &["coordinator/pipeline/src/conditions.rs", "coordinator/pipeline/src/event.rs"]),
    (
        "ModelServing",
        &[
            "coordinator/modelserving/src/status.rs",
            "coordinator/modelserving/src/table_mutator.rs",
            "coordinator/src/workloads/modelserving/tables.rs",
        ],
    ),
    ("LeaderWorkerSet", &["coordinator/src/workloads/lws/events.rs"]),
    ("DIJob", &["coordinator/dijob/src/api.rs", "coordinator/dijob/src/names.rs"]),
    (
        "Scheduling",
        &[
            "coordinator/scheduling/src/status_writer.rs",
            "coordinator/scheduling/src/health.rs",
            "coordinator/scheduling/src/transitions.rs",
            "coordinator/scheduling/src/evict.rs",
            "coordinator/scheduler/state/src/evicted.rs",
            "coordinator/scheduling/src/grouper.rs",
        ],
    ),
];

/// Enumerations whose words are shown to users.
const WORDS: [(&str, &str, &str); 2] = [
    ("Why a pod group waits", "coordinator/scheduler/src/reason.rs", "Reason"),
    ("Where an agent has a problem", AREAS, "Area"),
];

/// Words that are shown in lower case, with dashes.
const AREAS: &str = "agent/src/problem.rs";

/// Not a word that is shown: kinds of objects, versions.
fn shown(value: &str) -> bool {
    value.starts_with(|c: char| c.is_ascii_uppercase())
        && value.chars().all(|c| c.is_ascii_alphanumeric())
        && value.chars().any(|c| c.is_ascii_lowercase())
        && !matches!(value, "AggregatorConfig" | "DIJob" | "Reconciling")
}

/// The words of an enumeration, with what is said about them.
fn words(file: &str, name: &str) -> Result<Vec<(String, String)>> {
    let text = std::fs::read_to_string(root().join(file))?;
    let begin = format!("pub enum {name} {{");
    let body = text.lines().skip_while(|line| *line != begin).skip(1);
    let word = Regex::new(r"^    ([A-Z][A-Za-z]*),$")?;
    let (mut all, mut about) = (Vec::new(), Vec::new());
    for line in body.take_while(|line| *line != "}") {
        if let Some(said) = line.trim_start().strip_prefix("///") {
            about.push(said.trim().to_owned());
        } else if let Some(found) = word.captures(line) {
            all.push((found[1].to_owned(), std::mem::take(&mut about).join(" ")));
        }
    }
    ensure!(!all.is_empty(), "{file} has no enum {name} of plain words");
    Ok(all)
}

/// `PodResources` as `pod-resources`.
fn dashed(word: &str) -> String {
    let mut text = String::new();
    for c in word.chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

/// The page's text.
pub fn page() -> Result<String> {
    let mut text = head(
        "Conditions, phases and reasons",
        "Every word by which an object, an event or a page says how something stands.",
    );
    for (title, files) in PARTS {
        text += &format!("\n## {title}\n\n| word | of | meaning |\n|---|---|---|\n");
        for file in files {
            let found = source::constants(&root(), &root().join(file))?;
            let (mut any, events) =
                (false, file.ends_with("events.rs") || file.ends_with("event.rs"));
            for one in found.iter().filter(|one| one.values.len() == 1 && shown(&one.values[0])) {
                any = true;
                let of = match (one.module.as_str(), events || file.ends_with("grouper.rs")) {
                    (_, true) => "events",
                    ("reason", _) if file.ends_with("names.rs") => "events",
                    ("reason", _) => "reason",
                    ("phase", _) => "phase",
                    ("", _) if file.ends_with("table_mutator.rs") || one.values[0] == "Placed" => {
                        "reason"
                    }
                    ("", _) if one.about.contains("a JobSet says") => "condition of the JobSet",
                    _ => "condition",
                };
                text += &row(&[code(&one.values[0]), of.to_owned(), cell(&one.about)]);
            }
            ensure!(any, "{file} has no words any more: where did they go?");
        }
    }
    for (title, file, name) in WORDS {
        text += &format!("\n## {title}\n\n| word | meaning |\n|---|---|\n");
        for (word, about) in words(file, name)? {
            let word = if file == AREAS { dashed(&word) } else { word };
            text += &row(&[code(&word), cell(&about)]);
        }
    }
    text += "\n## Why an agent refuses an order\n\n";
    let all: Vec<String> = muster_proto::delivery::REASONS.iter().map(|word| code(word)).collect();
    text += &format!("{}\n", all.join(", "));
    Ok(text)
}
