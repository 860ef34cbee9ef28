//! The service of an instance: it gives the entry pod a name that workers find it by.

use serde_json::json;

use crate::api::ModelServing;
use crate::naming::{self, Shape};
use crate::step::{Kind, Object};

/// The service of an instance; none where the shape has none.
pub(crate) fn make(
    serving: &ModelServing,
    shape: Shape,
    group: &str,
    role: &str,
    role_id: &str,
) -> Option<Object> {
    let name = shape.service(group, role_id)?;
    let body = json!({
        "apiVersion": Kind::Service.api_version(),
        "kind": Kind::Service.name(),
        "metadata": {
            "name": name,
            "namespace": naming::namespace(serving),
            "labels": {
                naming::NAME: naming::name(serving),
                naming::GROUP: group,
                naming::ROLE: role,
                naming::ROLE_ID: role_id,
            },
            "ownerReferences": [shape.owner(serving)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": true,
            "selector": {
                naming::GROUP: group,
                naming::ROLE: role,
                naming::ROLE_ID: role_id,
                naming::ENTRY: "true",
            },
        },
    });
    Some(Object { kind: Kind::Service, name, body })
}
