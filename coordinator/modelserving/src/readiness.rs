//! When an instance is ready, and when a group is.

use crate::api::ModelServing;
use crate::budget::role_replicas;
use crate::seen::Seen;
use crate::store::{Group, InstanceState};

/// Exactly as many pods are ready as the role asks for now.
pub(crate) fn instance(
    serving: &ModelServing,
    seen: &Seen<'_>,
    group: &str,
    role: &str,
    id: &str,
) -> bool {
    let Some(wanted) = serving.spec.template.roles.iter().find(|known| known.name == role) else {
        return false;
    };
    let ready = seen.pods_of(group, role, id).filter(|pod| pod.ready).count();
    i64::try_from(ready) == Ok(1 + i64::from(wanted.worker_replicas))
}

/// Every role has exactly as many instances as are asked for, and all are running.
pub(crate) fn group(serving: &ModelServing, group: &Group) -> bool {
    serving.spec.template.roles.iter().all(|role| {
        let instances = group.instances(&role.name);
        i64::try_from(instances.len()) == Ok(role_replicas(role))
            && instances.iter().all(|instance| instance.state == InstanceState::Running)
    })
}
