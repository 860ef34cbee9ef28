//! PodGroups as they are written: created, or replaced if they are still what was read.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::DynamicObject;
use muster_podgrouper::draft::Draft;
use muster_podgrouper::write::write;
use muster_podgrouper::{Action, Key, Object, Refusal};
use serde_json::Value;
use tokio::time::Instant;

use super::Inner;
use super::cache::{Held, Want};
use super::failure::Failure;
use super::reader::{self, ReadError};
use muster_runtime::writer::WriteError;

// === impl Inner ===

impl Inner {
    /// Whether the group is known to be what the draft says.
    pub(super) fn is_known(&self, draft: &Draft) -> bool {
        let known = self.known.lock();
        let Some(known) = known.version(draft) else { return false };
        let want = Want::Object(Key::pod_group(&draft.namespace, &draft.name));
        let cache = self.reader.cache().lock();
        matches!(cache.get(&want, Instant::now()), Some((Held::Object(group), _))
            if version(group.raw()) == known)
    }

    /// There is a group of this name.
    fn named(&self, namespace: &str, name: &str) {
        let want = Want::Groups(namespace.to_owned());
        let cache = self.reader.cache().lock();
        if let Some((Held::Groups(names), _)) = cache.get(&want, Instant::now()) {
            names.lock().known.insert(name.into());
        }
    }

    /// Writes the group if it must be; its version, or why it has to be looked at anew.
    pub(super) async fn write(
        &self,
        draft: &Draft,
    ) -> Result<Result<String, &'static str>, Failure> {
        let key = Key::pod_group(&draft.namespace, &draft.name);
        let want = Want::Object(key.clone());
        let old = match self.old(&key).await? {
            Held::Object(old) => Some(old),
            Held::Refused(Refusal::Forbidden) => {
                let message =
                    format!("{key}: it may not be read; allow the coordinator to read PodGroups");
                return Err(Failure { class: "forbidden", message, retry: true, said: true });
            }
            _ => None,
        };
        let (action, object) = write(draft, old.as_deref(), &self.config());
        let verb = match action {
            Action::Created => "create",
            Action::Updated => "update",
            Action::Unchanged | Action::Skipped(_) => {
                return Ok(Ok(version(&object).to_owned()));
            }
        };
        let api = self.writer.dynamic(&reader::groups(), Some(&key.namespace));
        let object: DynamicObject = serde_json::from_value(object).map_err(|error| Failure {
            class: "unwritable",
            message: format!("{key}: {error}; correct its owner's labels and annotations"),
            retry: true,
            said: true,
        })?;
        let written = match verb {
            "create" => self.writer.create(&api, &object).await,
            _ => self.writer.replace(&api, &object).await,
        };
        match written {
            Ok(group) => {
                self.metrics.wrote(verb, "PodGroup");
                tracing::info!(group = %key, verb, "a group is written");
                self.remark(draft);
                let mut group = serde_json::to_value(group).unwrap_or_default();
                reader::trim(&mut group);
                let version = version(&group).to_owned();
                let group = Held::Object(Arc::new(Object::new(group)));
                self.reader.cache().lock().put(want, group, Instant::now());
                self.named(&key.namespace, &key.name);
                Ok(Ok(version))
            }
            Err(WriteError::Exists { .. }) => {
                self.named(&key.namespace, &key.name);
                self.reader.cache().lock().forget(&want);
                Ok(Err("exists"))
            }
            Err(WriteError::Conflict { .. }) => {
                self.reader.cache().lock().forget(&want);
                Ok(Err("conflict"))
            }
            Err(WriteError::Gone { .. }) if verb == "update" => {
                self.reader.cache().lock().forget(&want);
                Ok(Err("gone"))
            }
            Err(WriteError::Gone { .. }) => Err(Failure {
                class: "no-pod-groups",
                message: format!(
                    "{key}: the cluster does not know PodGroups, or the namespace goes; apply deploy/crds"
                ),
                retry: true,
                said: true,
            }),
            Err(error) => {
                // It may have been written all the same.
                self.named(&key.namespace, &key.name);
                self.reader.cache().lock().forget(&want);
                Err(error.into())
            }
        }
    }

    /// Tells the owner what it asks for and cannot have.
    fn remark(&self, draft: &Draft) {
        for remark in &draft.remarks {
            let owner = ObjectReference {
                api_version: Some(draft.owner.api_version.clone()),
                kind: Some(draft.owner.kind.clone()),
                namespace: Some(draft.namespace.clone()),
                name: Some(draft.owner.name.clone()),
                uid: Some(draft.owner.uid.clone()),
                ..ObjectReference::default()
            };
            self.events.warning(owner, super::WARNING, remark.clone());
        }
    }

    /// The group that is there. That its name is not known says that it is not.
    async fn old(&self, key: &Key) -> Result<Held, ReadError> {
        let absent = Held::Refused(Refusal::Absent);
        if let Held::Groups(names) = self.reader.known(Want::Groups(key.namespace.clone())).await? {
            let names = names.lock();
            if !names.more && !names.known.contains(key.name.as_str()) {
                return Ok(absent);
            }
        }
        self.reader.known(Want::Object(key.clone())).await
    }
}

fn version(object: &Value) -> &str {
    object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default()
}
