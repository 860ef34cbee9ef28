//! How many of each role must be there at once.

use super::roles;
use crate::api::ModelServing;
use muster_kube::FieldError;

/// The minimum of a role is one that it can have. Roles are looked at in the order of their names.
pub(super) fn minimum(serving: &ModelServing, errors: &mut Vec<FieldError>) {
    let gang = serving.spec.template.gang_policy.as_ref();
    let Some(minima) = gang.and_then(|gang| gang.min_role_replicas.as_ref()) else { return };
    for (name, &least) in minima {
        let at = format!("spec.template.gangPolicy.minRoleReplicas[{name}]");
        // Of two roles with one name the last one counts.
        let Some((_, role)) = roles(serving).filter(|(_, role)| role.name == *name).last() else {
            let why = format!("role {name} does not exist in template.roles");
            errors.push(
                FieldError::invalid(at, name.as_str(), why).remedy("name a role, or drop the line"),
            );
            continue;
        };
        let replicas = role.replicas.unwrap_or(1);
        if least > replicas {
            let why = format!(
                "minRoleReplicas ({least}) for role {name} cannot exceed replicas ({replicas})"
            );
            errors.push(FieldError::invalid(at.clone(), least, why).remedy(
                "raise the role's replicas; the minimum itself cannot be changed once it is set",
            ));
        }
        if least < 0 {
            let why = format!("minRoleReplicas for role {name} must be non-negative");
            errors.push(FieldError::invalid(at, least, why).remedy("set it to 0 or more"));
        }
    }
}
