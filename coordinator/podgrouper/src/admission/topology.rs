//! Topologies: each alias is the name of one level and of no label.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Refused;
use crate::object::Object;

/// Judges a Topology that is written.
///
/// # Errors
/// Why it is refused.
pub fn check(topology: &Object) -> Result<(), Refused> {
    let levels = topology.raw().pointer("/spec/levels").and_then(Value::as_array);
    let word = |level: &'_ Value, key: &str| {
        level.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let levels: Vec<(String, String)> = levels
        .into_iter()
        .flatten()
        .map(|level| (word(level, "nodeLabel"), word(level, "alias")))
        .collect();
    let labels: BTreeSet<&str> = levels.iter().map(|(label, _)| label.as_str()).collect();
    let mut seen = BTreeSet::new();
    for (at, (_, alias)) in levels.iter().enumerate().filter(|(_, (_, alias))| !alias.is_empty()) {
        let detail = if !seen.insert(alias) {
            format!("{alias:?} is the alias of two levels")
        } else if labels.contains(alias.as_str()) {
            format!("{alias:?} is a node label of this topology too")
        } else {
            continue;
        };
        let field = format!("spec.levels[{at}].alias");
        return Err(Refused::new("alias-invalid", topology, field, detail, "choose another word"));
    }
    Ok(())
}
