//! The JSON paths of printer columns: `.spec.a`, `.list[0].b`, `.list[*].b`, `.list[-1:].b`,
//! `.conditions[?(@.type=="Ready")].status`.

use serde_json::Value;

/// One step of a path.
#[derive(Debug, PartialEq)]
enum PathStep {
    Field(String),
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    Every,
    Where(String, String),
}

/// The values at a path, in order.
pub fn find<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut found = vec![object];
    for step in parse(path) {
        found = found.into_iter().flat_map(|value| take(value, &step)).collect();
    }
    found
}

fn take<'a>(value: &'a Value, step: &PathStep) -> Vec<&'a Value> {
    let items = || value.as_array().map(Vec::as_slice).unwrap_or_default();
    match step {
        PathStep::Field(name) => value.get(name).into_iter().collect(),
        PathStep::Index(at) => {
            let at = usize::try_from(from_end(*at, items().len())).ok();
            at.and_then(|at| items().get(at)).into_iter().collect()
        }
        PathStep::Slice(first, end) => {
            let count = items().len();
            let place = |at: Option<i64>, otherwise: usize| {
                at.map_or(otherwise, |at| {
                    usize::try_from(from_end(at, count).max(0)).unwrap_or(count).min(count)
                })
            };
            items().get(place(*first, 0)..place(*end, count)).unwrap_or_default().iter().collect()
        }
        PathStep::Every => items().iter().collect(),
        PathStep::Where(field, wanted) => items()
            .iter()
            .filter(|item| {
                let pointer = format!("/{}", field.replace('.', "/"));
                match item.pointer(&pointer) {
                    Some(Value::String(text)) => text == wanted,
                    Some(other) => wanted == &other.to_string(),
                    None => false,
                }
            })
            .collect(),
    }
}

/// A place in a list; below zero it counts from the end.
fn from_end(at: i64, count: usize) -> i64 {
    if at < 0 { at.saturating_add(i64::try_from(count).unwrap_or(i64::MAX)) } else { at }
}

fn parse(path: &str) -> Vec<PathStep> {
    let mut steps = Vec::new();
    let mut rest = path.trim().trim_start_matches('{').trim_end_matches('}');
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix('[') {
            let Some(end) = tail.find(']') else { break };
            steps.extend(bracket(&tail[..end]));
            rest = &tail[end + 1..];
            continue;
        }
        rest = rest.trim_start_matches('.');
        let mut name = String::new();
        let mut chars = rest.char_indices();
        let mut end = rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => name.extend(chars.next().map(|(_, c)| c)),
                '.' | '[' => {
                    end = at;
                    break;
                }
                c => name.push(c),
            }
        }
        if !name.is_empty() {
            steps.push(PathStep::Field(name));
        } else if end == 0 && !rest.starts_with('[') {
            break;
        }
        rest = &rest[end..];
    }
    steps
}

fn bracket(inner: &str) -> Option<PathStep> {
    if inner == "*" {
        return Some(PathStep::Every);
    }
    if let Ok(at) = inner.parse() {
        return Some(PathStep::Index(at));
    }
    if let Some((first, end)) = inner.split_once(':') {
        let bound = |text: &str| match text.trim() {
            "" => Some(None),
            number => number.parse().ok().map(Some),
        };
        if let (Some(first), Some(end)) = (bound(first), bound(end)) {
            return Some(PathStep::Slice(first, end));
        }
    }
    if let Some(test) = inner.strip_prefix("?(@.").and_then(|t| t.strip_suffix(')')) {
        let (field, value) = test.split_once("==")?;
        let value = value.trim().trim_matches(['"', '\'']);
        return Some(PathStep::Where(field.trim().to_owned(), value.to_owned()));
    }
    Some(PathStep::Field(inner.trim_matches(['"', '\'']).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_of_printer_columns_find_their_values() {
        let object = json!({
            "a": {"b": 1, "c.d": 2},
            "l": [{"type": "X", "status": "True"}, {"type": "Y", "status": "False"}],
        });
        let table = [
            (".a.b", vec![json!(1)]),
            (".a.c\\.d", vec![json!(2)]),
            (".a['c.d']", vec![json!(2)]),
            (".l[1].type", vec![json!("Y")]),
            (".l[*].type", vec![json!("X"), json!("Y")]),
            (".l[-1].type", vec![json!("Y")]),
            (".l[-1:].type", vec![json!("Y")]),
            (".l[:1].type", vec![json!("X")]),
            (".l[0:9].type", vec![json!("X"), json!("Y")]),
            (".l[-9:-1].type", vec![json!("X")]),
            (".l[2:].type", vec![]),
            (".l[1:0].type", vec![]),
            (".l[-3].type", vec![]),
            (".missing[-1:].type", vec![]),
            (".l[?(@.type==\"Y\")].status", vec![json!("False")]),
            (".missing.x", vec![]),
            ("", vec![object.clone()]),
            ("[", vec![object.clone()]),
        ];
        for (path, expected) in table {
            let found: Vec<Value> = find(&object, path).into_iter().cloned().collect();
            assert_eq!(found, expected, "{path}");
        }
    }
}
