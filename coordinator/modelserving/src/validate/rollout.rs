//! How pods of a new template replace the old ones: budgets of groups, budgets of roles, and what goes with what.

use serde_json::{Value, json};

use super::{budget, role_field, roles as each_role};
use crate::api::ModelServing;
use muster_kube::FieldError;

const BY_ROLE: &str = "RoleRollingUpdate";
const BY_GROUP: &str = "ServingGroupRollingUpdate";
const STRATEGY: &str = "spec.rolloutStrategy.type";
const CONFIGURATION: &str = "spec.rolloutStrategy.rollingUpdateConfiguration";

const NOT_ZERO: &str = "maxUnavailable cannot be 0";
const RAISE: &str = "with 0 nothing would ever be replaced: raise it, or the replicas";

/// Whether role instances are replaced rather than groups.
fn is_by_role(serving: &ModelServing) -> bool {
    serving.spec.rollout_strategy.as_ref().is_some_and(|strategy| strategy.kind == BY_ROLE)
}

/// Budgets of groups.
pub(super) fn groups(serving: &ModelServing, errors: &mut Vec<FieldError>) {
    let strategy = serving.spec.rollout_strategy.as_ref();
    let Some(limits) = strategy.and_then(|s| s.rolling_update_configuration.as_ref()) else {
        return;
    };
    if is_by_role(serving) {
        let why = "rollingUpdateConfiguration is only valid when rolloutStrategy.type is ServingGroupRollingUpdate";
        errors.push(
            FieldError::forbidden(CONFIGURATION, why)
                .remedy("drop it and set maxUnavailable and partition of the roles"),
        );
        return;
    }
    let at = format!("{CONFIGURATION}.maxUnavailable");
    errors.extend(limits.max_unavailable.as_ref().and_then(|max| budget::check(&at, max)));
    let partition = format!("{CONFIGURATION}.partition");
    errors.extend(limits.partition.as_ref().and_then(|part| budget::check(&partition, part)));
    let (Some(replicas), Some(max)) = (serving.spec.replicas, &limits.max_unavailable) else {
        return;
    };
    match budget::scaled(max, replicas, false) {
        Err(why) => errors.push(unscalable(at, max, &why)),
        Ok(0) => errors.push(FieldError::invalid(CONFIGURATION, "", NOT_ZERO).remedy(RAISE)),
        Ok(_) => {}
    }
}

/// Budgets of roles.
pub(super) fn roles(serving: &ModelServing, errors: &mut Vec<FieldError>) {
    let by_role = is_by_role(serving);
    for (index, role) in each_role(serving) {
        if let Some(partition) = &role.partition {
            let at = role_field(index, "partition");
            errors.extend(budget::check(&at, partition));
            if !by_role {
                let why = "partition is only valid when rolloutStrategy.type is RoleRollingUpdate";
                errors.push(
                    FieldError::forbidden(at, why)
                        .remedy("drop it, or set spec.rolloutStrategy.type to RoleRollingUpdate"),
                );
            }
        }
        let Some(max) = role.max_unavailable.as_ref().filter(|_| by_role) else { continue };
        let (at, replicas) = (role_field(index, "maxUnavailable"), role.replicas.unwrap_or(1));
        errors.extend(budget::check(&at, max));
        match budget::scaled(max, replicas, false) {
            Err(why) => errors.push(unscalable(at, max, &why)),
            Ok(0) => errors.push(FieldError::invalid(at, max.clone(), NOT_ZERO).remedy(RAISE)),
            Ok(count) if count > i64::from(replicas) => {
                let why = format!("maxUnavailable cannot be greater than replicas ({replicas})");
                errors.push(
                    FieldError::invalid(at, max.clone(), why).remedy(
                        "lower it, or raise the role's replicas; without the field it is 1",
                    ),
                );
            }
            Ok(_) => {}
        }
    }
}

/// Whole groups cannot be recovered while roles are replaced.
pub(super) fn pair(serving: &ModelServing, errors: &mut Vec<FieldError>) {
    let recovery = &serving.spec.recovery_policy;
    if recovery != "ServingGroupRecreate" || !is_by_role(serving) {
        return;
    }
    let why = format!(
        "incompatible recoveryPolicy and rolloutStrategy.type after applying defaults: recoveryPolicy={recovery}, rolloutStrategy.type={BY_ROLE}; valid pairs: (ServingGroupRecreate,{BY_GROUP}) or (RoleRecreate,{BY_ROLE})"
    );
    errors.push(
        FieldError::invalid(STRATEGY, json!(BY_ROLE), why).remedy("change one of the two fields"),
    );
}

fn unscalable(at: String, value: &Value, why: &str) -> FieldError {
    FieldError::invalid(at, value.clone(), format!("invalid maxUnavailable: {why}"))
        .remedy("write a number such as 1, or a part such as \"25%\"")
}
