//! PodGroups: minimums that fit the tree, and a tree that is one.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::Refused;
use crate::object::Object;
use muster_kube::duration;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    min_member: Option<i32>,
    min_sub_group: Option<i32>,
    scheduling_backoff: Option<i32>,
    preemption_delay: Option<String>,
    staleness_grace_period: Option<String>,
    sub_groups: Option<Vec<Part>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    #[serde(default)]
    name: String,
    min_member: Option<i32>,
    min_sub_group: Option<i32>,
    parent: Option<String>,
}

/// Judges a PodGroup that is written. On an update `minMember` on an inner part is only warned of: it was taken once.
///
/// # Errors
/// Why it is refused.
pub fn check(group: &Object, is_update: bool) -> Result<Vec<String>, Refused> {
    judge(group, is_update, false)
}

/// The same as KAI 0.12 does it, which knows no `minSubGroup`: where a group does not use that, a part need not say how many pods it
/// needs, and one that has parts may. Both are only warned of.
///
/// # Errors
/// Why it is refused.
pub fn check_leniently(group: &Object, is_update: bool) -> Result<Vec<String>, Refused> {
    judge(group, is_update, true)
}

fn judge(group: &Object, is_update: bool, lenient: bool) -> Result<Vec<String>, Refused> {
    let spec = read(group)?;
    let refused = |class, field: String, detail: String, remedy| {
        Err(Refused::new(class, group, field, detail, remedy))
    };
    let both = "leave one of minMember and minSubGroup";
    if let (Some(members), Some(_)) = (spec.min_member, spec.min_sub_group) {
        let detail = format!("it asks for {members} pods and for parts as well");
        return refused("both-min-fields", "spec.minMember".to_owned(), detail, both);
    }
    let parts = spec.sub_groups.unwrap_or_default();
    let counts_parts = || parts.iter().any(|part| part.min_sub_group.is_some());
    let lenient = lenient && spec.min_sub_group.is_none() && !counts_parts();
    let mut by_name: BTreeMap<&str, (usize, &Part)> = BTreeMap::new();
    for (at, part) in parts.iter().enumerate() {
        if by_name.insert(&part.name, (at, part)).is_some() {
            let detail = format!("{} is there twice", part.name);
            let field = format!("spec.subGroups[{at}].name");
            return refused("duplicate-subgroup", field, detail, "rename one");
        }
    }
    let mut children: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, part) in parts.iter().enumerate() {
        let Some(parent) = part.parent.as_deref() else { continue };
        if !by_name.contains_key(parent) {
            let detail = format!("there is no part {parent}");
            let field = format!("spec.subGroups[{at}].parent");
            return refused("parent-missing", field, detail, "name a part of this group");
        }
        *children.entry(parent).or_default() += 1;
    }
    if let Some(part) = circle(&parts, &by_name) {
        let detail = format!("{part} is above itself");
        let field = "spec.subGroups".to_owned();
        return refused("subgroup-cycle", field, detail, "break the circle of parents");
    }
    let (mut warnings, mut first) = (Vec::new(), None);
    for (name, (at, part)) in &by_name {
        let field = |key: &str| format!("spec.subGroups[{at}].{key}");
        if part.min_member.is_some() && part.min_sub_group.is_some() {
            let detail = format!("{name} asks for pods and for parts as well");
            return refused("both-min-fields", field("minMember"), detail, both);
        }
        let inside = children.get(name).copied().unwrap_or(0);
        let mut wrong = |class, key: &str, detail: String, remedy| {
            first.get_or_insert_with(|| Refused::new(class, group, field(key), detail, remedy));
        };
        if inside == 0 {
            if part.min_sub_group.is_some() {
                let detail = format!("{name} has no parts");
                wrong("min-subgroup-on-leaf", "minSubGroup", detail, "write minMember instead");
            }
            if part.min_member.is_none() {
                let detail = format!("{name} does not say how many pods it needs");
                match lenient {
                    true => warnings.push(format!("{}: {detail}", field("minMember"))),
                    false => wrong("leaf-without-min-member", "minMember", detail, "add it"),
                }
            }
            continue;
        }
        if part.min_member.is_some() {
            let detail = format!("{name} has parts, and only what has none counts pods");
            match is_update || lenient {
                // The words that clients of KAI know.
                true => warnings.push(format!(
                    "subgroup {name:?}: minMember cannot be set on a mid-level SubGroup \
                     (has child SubGroups); use minSubGroup instead"
                )),
                false => {
                    wrong("min-member-on-parent", "minMember", detail, "write minSubGroup instead");
                }
            }
        }
        if let Some(least) = part.min_sub_group
            && exceeds(least, inside)
        {
            warnings.push(format!("subgroup {name:?}: {}", too_many(least, inside)));
        }
    }
    let roots = parts.iter().filter(|part| part.parent.is_none()).count();
    if let Some(least) = spec.min_sub_group
        && exceeds(least, roots)
    {
        warnings.push(too_many(least, roots));
    }
    match first {
        None => Ok(warnings),
        Some(refused) => Err(Refused { warnings, ..refused }),
    }
}

fn read(group: &Object) -> Result<Spec, Refused> {
    let decode = |detail: String| {
        Refused::new("decode", group, "spec", detail, "write values of the fields' types")
    };
    let spec = group.raw().get("spec").filter(|spec| !spec.is_null());
    let Some(spec) = spec else { return Ok(Spec::default()) };
    let spec: Spec =
        Deserialize::deserialize(spec).map_err(|e: serde_json::Error| decode(e.to_string()))?;
    for text in [&spec.preemption_delay, &spec.staleness_grace_period].into_iter().flatten() {
        if !duration::is_duration(text) {
            return Err(decode(format!("{text:?} is no duration")));
        }
    }
    Ok(spec)
}

fn exceeds(least: i32, parts: usize) -> bool {
    usize::try_from(least).is_ok_and(|least| least > parts)
}

fn too_many(least: i32, parts: usize) -> String {
    format!("minSubGroup ({least}) exceeds the number of direct child SubGroups ({parts})")
}

/// A part that is above itself.
fn circle<'a>(parts: &'a [Part], by_name: &BTreeMap<&str, (usize, &'a Part)>) -> Option<&'a str> {
    let mut ends: BTreeSet<&str> = BTreeSet::new();
    for part in parts {
        let mut way: BTreeSet<&str> = BTreeSet::new();
        let mut next = Some(part.name.as_str());
        while let Some(name) = next.filter(|name| !ends.contains(name)) {
            let (_, part) = by_name.get(name)?;
            if !way.insert(&part.name) {
                return Some(&part.name);
            }
            next = part.parent.as_deref();
        }
        ends.extend(way);
    }
    None
}

/// Whether nothing is there.
pub(super) fn is_empty(value: Option<&Value>) -> bool {
    value.is_none_or(Value::is_null)
}
