//! Groups and their parts, one line for each.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::Value as Json;

use super::Found;

const HEADER: [&str; 6] = ["GROUP / PART", "NEEDS", "PODS", "QUEUE", "PRIORITY", "ACTION"];

/// Where there is nothing to say.
const NONE: &str = "-";

pub(super) fn print(found: &[Found], out: &mut dyn Write) -> std::io::Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    let mut rows = vec![HEADER.map(str::to_owned)];
    for found in found {
        let spec = &found.group["spec"];
        let word = |key: &str| spec[key].as_str().unwrap_or(NONE).to_owned();
        let all: usize = found.pods.values().sum();
        rows.push([
            found.group["metadata"]["name"].as_str().unwrap_or(NONE).to_owned(),
            needs(spec),
            all.to_string(),
            word("queue"),
            word("priorityClassName"),
            found.action.word().to_owned(),
        ]);
        let parts = spec["subGroups"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (depth, part) in in_order(parts) {
            let name = part["name"].as_str().unwrap_or(NONE);
            let pods = found.pods.get(name).map_or_else(String::new, usize::to_string);
            let indent = "  ".repeat(depth);
            let none = String::new;
            rows.push([format!("{indent}{name}"), needs(part), pods, none(), none(), none()]);
        }
    }
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

fn needs(part: &Json) -> String {
    let count =
        |number: i64, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
    match (part["minMember"].as_i64(), part["minSubGroup"].as_i64()) {
        (Some(pods), _) => count(pods, "pod"),
        (_, Some(parts)) => count(parts, "part"),
        _ => NONE.to_owned(),
    }
}

/// Parts below their parents, and how deep they are. Parts in a circle are in no tree.
fn in_order(parts: &[Json]) -> Vec<(usize, &Json)> {
    let mut children: BTreeMap<Option<&str>, Vec<&Json>> = BTreeMap::new();
    for part in parts {
        children.entry(part["parent"].as_str()).or_default().push(part);
    }
    let mut out = Vec::with_capacity(parts.len());
    let mut next: Vec<(usize, &Json)> = Vec::new();
    let below = |depth: usize, name: Option<&str>| {
        let parts = children.get(&name).into_iter().flatten().rev();
        parts.map(move |part| (depth, *part)).collect::<Vec<_>>()
    };
    next.extend(below(1, None));
    while let Some((depth, part)) = next.pop() {
        out.push((depth, part));
        next.extend(
            part["name"].as_str().map(|name| below(depth + 1, Some(name))).into_iter().flatten(),
        );
    }
    out
}
