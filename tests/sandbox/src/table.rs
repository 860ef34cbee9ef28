//! Tables: what `kubectl get` shows.

use jiff::Timestamp;
use muster_objects::meta;
use serde_json::{Value, json};

use crate::kinds::{Column, Kind};
use crate::represent;

mod columns;
mod path;

/// A table of objects. `include` is `includeObject`: `None`, `Metadata` (the default) or `Object`.
pub fn of(kind: &Kind, objects: &[&Value], list: Option<&Value>, include: &str) -> Value {
    let definitions = columns::of(kind);
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = json!({"cells": columns::cells(kind, &definitions, object)});
            match include {
                "None" => {}
                "Object" => row["object"] = represent::typed(kind, object),
                _ => row["object"] = represent::metadata_only(object),
            }
            row
        })
        .collect();
    let metadata = match (list, objects) {
        (Some(metadata), _) => metadata.clone(),
        (None, [one]) => json!({"resourceVersion": meta::text(one, "resourceVersion")}),
        _ => json!({}),
    };
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions.iter().map(definition).collect::<Vec<_>>(),
        "rows": rows,
    })
}

fn definition(column: &Column) -> Value {
    json!({
        "name": column.name,
        "type": column.type_,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    })
}

/// The time since `since` in kubectl's short form: `5s`, `3m20s`, `2d4h`.
pub fn age(since: &str, now: Timestamp) -> String {
    let Ok(since) = since.parse::<Timestamp>() else { return "<unknown>".to_owned() };
    let seconds = now.duration_since(since).as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let pair = |a: i64, x: &str, b: i64, y: &str| {
        if b == 0 { format!("{a}{x}") } else { format!("{a}{x}{b}{y}") }
    };
    match seconds {
        i64::MIN..=-2 => "<invalid>".to_owned(),
        -1..=0 => "0s".to_owned(),
        1..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let now: Timestamp = "2026-01-10T00:00:00Z".parse().unwrap();
        let table = [
            ("2026-01-10T00:00:00Z", "0s"),
            ("2026-01-09T23:58:30Z", "90s"),
            ("2026-01-09T23:56:40Z", "3m20s"),
            ("2026-01-09T23:00:00Z", "60m"),
            ("2026-01-09T19:30:00Z", "4h30m"),
            ("2026-01-07T20:00:00Z", "2d4h"),
            ("2025-12-01T00:00:00Z", "40d"),
            ("nonsense", "<unknown>"),
        ];
        for (since, expected) in table {
            assert_eq!(age(since, now), expected, "{since}");
        }
    }
}
