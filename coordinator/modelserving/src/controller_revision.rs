//! ControllerRevisions: the roles of a revision, kept for groups that are to stay as they were.

use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::json;

use crate::api::{ModelServing, Role};
use crate::naming::{self, Shape};
use crate::step::{Kind, Object, Write};

/// What makes a ControllerRevision keep these roles; nothing if one does already. An API server lets nobody change what
/// one keeps: it is replaced.
pub(crate) fn keep(
    serving: &ModelServing,
    shape: Shape,
    revision: &str,
    roles: &[Role],
    known: Option<&ControllerRevision>,
) -> Vec<Write> {
    let name = naming::revision(naming::name(serving), revision);
    let data = json!({ "data": roles });
    let kind = Kind::ControllerRevision;
    let mut writes = Vec::new();
    if let Some(known) = known {
        if known.data.as_ref().is_some_and(|kept| kept.0 == data) {
            return writes;
        }
        let uid = known.metadata.uid.clone();
        writes.push(Write::Delete { kind, name: name.clone(), uid });
    }
    let body = json!({
        "apiVersion": Kind::ControllerRevision.api_version(),
        "kind": Kind::ControllerRevision.name(),
        "metadata": {
            "name": name,
            "namespace": naming::namespace(serving),
            "labels": {naming::NAME: naming::name(serving), naming::REVISION: revision},
            "ownerReferences": [shape.owner(serving)],
        },
        "revision": known.map_or(1, |known| known.revision.saturating_add(1)),
        "data": data,
    });
    writes.push(Write::Create(Object { kind, name, body }));
    writes
}
