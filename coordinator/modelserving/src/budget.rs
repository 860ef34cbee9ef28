//! How many may be away, and how many keep what they have: numbers or percentages.

use serde_json::Value;

use crate::api::{ModelServing, Role};

/// How another template replaces the old one: a role's instances one by one, or whole groups.
pub(crate) fn by_role(serving: &ModelServing) -> bool {
    let strategy = serving.spec.rollout_strategy.as_ref();
    strategy.is_some_and(|strategy| strategy.kind == "RoleRollingUpdate")
}

/// How many groups are wanted.
pub(crate) fn replicas(serving: &ModelServing) -> i64 {
    serving.spec.replicas.map_or(0, i64::from)
}

/// How many instances of a role are wanted.
pub(crate) fn role_replicas(role: &Role) -> i64 {
    role.replicas.map_or(1, i64::from)
}

/// What a number or a percentage of `total` comes to.
pub fn scaled(value: &Value, total: i64, up: bool) -> Result<i64, String> {
    if let Some(number) = value.as_i64() {
        return Ok(number);
    }
    let text = value.as_str().unwrap_or_default();
    let Some(percent) = text.strip_suffix('%') else {
        return Err(
            "invalid value for IntOrString: invalid type: string is not a percentage".to_owned()
        );
    };
    let percent: i64 = percent.parse().map_err(|_| {
        format!(
            "invalid value for IntOrString: invalid value {text:?}: strconv.Atoi: parsing {percent:?}: invalid syntax"
        )
    })?;
    let share = percent.saturating_mul(total);
    Ok(if up { -(-share).div_euclid(100) } else { share.div_euclid(100) })
}

/// How many groups keep the old template, if it is said.
pub(crate) fn group_partition(serving: &ModelServing) -> Option<i64> {
    let strategy = serving.spec.rollout_strategy.as_ref()?;
    let partition = strategy.rolling_update_configuration.as_ref()?.partition.as_ref()?;
    if partition.is_null() {
        return None;
    }
    Some(scaled(partition, replicas(serving), true).unwrap_or_default())
}

/// How many groups may be away while they are replaced.
pub(crate) fn group_away(serving: &ModelServing) -> Result<i64, String> {
    let strategy = serving.spec.rollout_strategy.as_ref();
    let update = strategy.and_then(|strategy| strategy.rolling_update_configuration.as_ref());
    match update.and_then(|update| update.max_unavailable.as_ref()) {
        Some(away) if !away.is_null() => scaled(away, replicas(serving), false),
        _ => Ok(1),
    }
}

/// How many instances keep the old template; only where roles are replaced one by one.
pub(crate) fn role_partition(serving: &ModelServing, role: &Role) -> Result<i64, String> {
    if !by_role(serving) {
        return Ok(0);
    }
    match &role.partition {
        Some(partition) if !partition.is_null() => scaled(partition, role_replicas(role), true),
        _ => Ok(0),
    }
}

/// How many outdated instances of a role may go now; all of them if the role does not say how many.
pub fn may_go(role: &Role, outdated: i64, all: i64, away: i64) -> Result<i64, String> {
    let budget = match &role.max_unavailable {
        Some(budget) if !budget.is_null() => budget,
        _ => return Ok(outdated),
    };
    let wanted = role_replicas(role);
    let budget = scaled(budget, wanted, false).map_err(|error| {
        format!("failed to calculate maxUnavailable for role {}: {error}", role.name)
    })?;
    Ok((all - (wanted - budget).max(0) - away).max(0))
}

/// The lowest numbers below `wanted` that are not there, at most `limit` of them.
pub fn missing(wanted: i64, there: &[i64], limit: i64) -> Vec<i64> {
    let limit = usize::try_from(limit).unwrap_or_default();
    let there: std::collections::HashSet<i64> = there.iter().copied().collect();
    (0..wanted).filter(|ordinal| !there.contains(ordinal)).take(limit).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_partition_rounds_up_and_a_budget_down() {
        assert_eq!(scaled(&json!("50%"), 5, true), Ok(3));
        assert_eq!(scaled(&json!("50%"), 5, false), Ok(2));
        assert_eq!(scaled(&json!(9), 5, false), Ok(9));
        assert!(scaled(&json!("5"), 5, false).is_err());
        assert!(scaled(&json!("x%"), 5, false).is_err());
    }

    #[test]
    fn what_is_away_already_counts_against_the_budget() {
        let role = |budget: Value| Role {
            replicas: Some(3),
            max_unavailable: Some(budget),
            ..Role::default()
        };
        assert_eq!(may_go(&role(json!(1)), 3, 3, 0), Ok(1));
        assert_eq!(may_go(&role(json!(1)), 2, 3, 1), Ok(0));
        assert_eq!(may_go(&role(json!(5)), 3, 3, 0), Ok(3));
        assert_eq!(may_go(&Role::default(), 3, 3, 2), Ok(3), "no budget: all at once");
    }

    #[test]
    fn holes_are_filled_from_the_lowest() {
        assert_eq!(missing(4, &[0, 2], 2), [1, 3]);
        assert_eq!(missing(5, &[-1, 0, 0, 3], 2), [1, 2]);
        assert_eq!(missing(2, &[0, 1], 0), [0i64; 0]);
    }
}
