//! ControllerRevisions: the roles of a revision, kept for groups that are to stay as they were.

use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::{Value, json};

use crate::api::{ModelServing, Role};
use crate::naming::{self, Shape};
use crate::step::{Kind, Object, Write};

/// What makes a ControllerRevision keep these roles; nothing if one does already.
pub(crate) fn keep(
    serving: &ModelServing,
    shape: Shape,
    revision: &str,
    roles: &[Role],
    known: Option<&ControllerRevision>,
) -> Option<Write> {
    let name = naming::revision(naming::name(serving), revision);
    let data = json!({ "data": roles });
    let object = |body: Value| Object { kind: Kind::ControllerRevision, name: name.clone(), body };
    if let Some(known) = known {
        if known.data.as_ref().is_some_and(|kept| kept.0 == data) {
            return None;
        }
        let mut body = json!(known);
        body["data"] = data;
        body["revision"] = (known.revision + 1).into();
        return Some(Write::Update(object(body)));
    }
    Some(Write::Create(object(json!({
        "apiVersion": Kind::ControllerRevision.api_version(),
        "kind": Kind::ControllerRevision.name(),
        "metadata": {
            "name": name,
            "namespace": naming::namespace(serving),
            "labels": {naming::NAME: naming::name(serving), naming::REVISION: revision},
            "ownerReferences": [shape.owner(serving)],
        },
        "revision": 1,
        "data": data,
    }))))
}
