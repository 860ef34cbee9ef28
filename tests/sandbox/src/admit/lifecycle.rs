//! NamespaceLifecycle: nothing new in a namespace that is missing or going away.

use muster_objects::status::{Cause, Resource, Status};

use super::{Attempt, Operation, Plugin};
use crate::store::Store;

pub(super) struct NamespaceLifecycle;

const NAMESPACES: Resource<'static> = Resource { group: "", plural: "namespaces" };

impl Plugin for NamespaceLifecycle {
    fn admit(&self, attempt: &mut Attempt<'_>, store: &Store) -> Result<(), Status> {
        if attempt.is_namespace() {
            let immortal = matches!(attempt.name, "default" | "kube-system" | "kube-public");
            return match attempt.operation {
                Operation::Delete if immortal => {
                    Err(attempt.forbid("this namespace may not be deleted"))
                }
                _ => Ok(()),
            };
        }
        let access_review = attempt.resource.group == "authorization.k8s.io"
            && attempt.resource.resource == "localsubjectaccessreviews";
        let checked = matches!(attempt.operation, Operation::Create | Operation::Update);
        if attempt.namespace.is_empty() || !checked || access_review {
            return Ok(());
        }
        let name = attempt.namespace;
        let namespace =
            store.get("namespaces", "", name).ok_or_else(|| Status::not_found(NAMESPACES, name))?;
        let going = namespace.value["status"]["phase"] == "Terminating";
        if attempt.operation == Operation::Update || !going {
            return Ok(());
        }
        let mut status = attempt.forbid(&format!(
            "unable to create new content in namespace {name} because it is being terminated"
        ));
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                reason: "NamespaceTerminating".into(),
                message: format!("namespace {name} is being terminated"),
                field: "metadata.namespace".into(),
            });
        }
        Err(status)
    }
}
