//! Which names a definition may have: in one group, no two resources share one. Pure.

use std::collections::HashSet;

use muster_objects::meta;
use serde_json::{Map, Value, json};

/// What naming decided.
#[derive(Debug, PartialEq)]
pub struct NamesVerdict {
    /// The names that are this definition's from now on.
    pub names: Value,
    /// Reason and message of the first kind of conflict that matters, if there is any.
    pub conflict: Option<(&'static str, String)>,
}

/// Decides on the names of `crd` beside the other definitions.
pub fn decide<'a>(crd: &Value, others: impl Iterator<Item = &'a Value>) -> NamesVerdict {
    let (mut resources, mut kinds) = (HashSet::new(), HashSet::new());
    for other in others {
        if other["spec"]["group"] != crd["spec"]["group"] || meta::name(other) == meta::name(crd) {
            continue;
        }
        let names = &other["status"]["acceptedNames"];
        resources.extend(["plural", "singular"].iter().filter_map(|n| text(&names[*n])));
        resources.extend(list(&names["shortNames"]).filter_map(text));
        kinds.extend(["kind", "listKind"].iter().filter_map(|n| text(&names[*n])));
    }
    let asked = &crd["spec"]["names"];
    let held = &crd["status"]["acceptedNames"];
    let mut names = Map::new();
    let mut conflict = None;
    let mut settle = |field: &str, reason: &'static str, taken: &HashSet<String>| {
        let (wanted, has) =
            (text(&asked[field]).unwrap_or_default(), text(&held[field]).unwrap_or_default());
        if wanted != has && taken.contains(&wanted) {
            conflict = Some((reason, format!("{wanted:?} is already in use")));
            keep(&mut names, field, &held[field]);
        } else {
            keep(&mut names, field, &asked[field]);
        }
    };
    settle("plural", "PluralConflict", &resources);
    settle("singular", "SingularConflict", &resources);
    settle("kind", "KindConflict", &kinds);
    settle("listKind", "ListKindConflict", &kinds);
    let clash: Vec<String> = list(&asked["shortNames"])
        .filter_map(text)
        .filter(|name| {
            resources.contains(name) && !list(&held["shortNames"]).any(|h| h == &json!(name))
        })
        .map(|name| format!("{name:?} is already in use"))
        .collect();
    if clash.is_empty() {
        keep(&mut names, "shortNames", &asked["shortNames"]);
    } else {
        conflict = conflict.or(Some(("ShortNamesConflict", clash.join(", "))));
        keep(&mut names, "shortNames", &held["shortNames"]);
    }
    keep(&mut names, "categories", &asked["categories"]);
    for required in ["plural", "kind"] {
        names.entry(required).or_insert_with(|| json!(""));
    }
    NamesVerdict { names: Value::Object(names), conflict }
}

fn keep(names: &mut Map<String, Value>, field: &str, value: &Value) {
    let empty = value.as_str() == Some("") || value.as_array().is_some_and(Vec::is_empty);
    if !value.is_null() && !empty {
        names.insert(field.to_owned(), value.clone());
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|t| !t.is_empty()).map(str::to_owned)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_crd(plural: &str, kind: &str, accepted: bool) -> Value {
        let names = json!({"plural": plural, "kind": kind, "listKind": format!("{kind}List"), "singular": kind.to_lowercase()});
        let status = if accepted { names.clone() } else { json!({"plural": "", "kind": ""}) };
        json!({
            "metadata": {"name": format!("{plural}.x.dev")},
            "spec": {"group": "x.dev", "names": names},
            "status": {"acceptedNames": status},
        })
    }

    #[test]
    fn a_kind_that_another_definition_has_is_refused_and_the_plural_is_kept() {
        let (first, second) = (mk_crd("things", "Thing", true), mk_crd("others", "Thing", false));
        let verdict = decide(&second, [&first, &second].into_iter());
        assert_eq!(verdict.names, json!({"plural": "others", "kind": ""}));
        assert_eq!(
            verdict.conflict,
            Some(("ListKindConflict", "\"ThingList\" is already in use".to_owned()))
        );
    }

    #[test]
    fn names_of_its_own_are_accepted() {
        let (first, second) = (mk_crd("things", "Thing", true), mk_crd("others", "Other", false));
        let verdict = decide(&second, [&first, &second].into_iter());
        assert_eq!((verdict.names, verdict.conflict), (second["spec"]["names"].clone(), None));
    }
}
