//! The kinds of which TrainJobs own objects: those that plugins declare ([`muster_pipeline::plugin::WatchExtension`]), and those of the
//! controller itself. An object of any of them is watched, compared before it is applied, and made again when somebody deletes it.

use std::sync::Arc;

use kube::core::{ApiResource, ObjectMeta};
use muster_api::names::FIELD_MANAGER;
use muster_pipeline::Registry;
use muster_pipeline::plugin;
use muster_runtime::any_object::AnyObject;
use muster_runtime::overlay::ObjectVersion;
use muster_runtime::reflector::Watch;
use serde_json::{Map, Value, json};

use super::kinds::{controller, resource};
use muster_serving::names::CERTS_SECRET;

/// Where a Secret has the certificates of authorities.
pub const AUTHORITY: &str = "ca.crt";

/// ConfigMaps: snapshots of runtimes, and what plugins make.
pub const CONFIG_MAP: (&str, &str) = ("v1", "ConfigMap");

/// Secrets: keys, and the certificates that trainers get who report their progress.
pub const SECRET: (&str, &str) = ("v1", "Secret");

/// One of the kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindId(usize);

/// A kind, and its objects.
pub struct OwnedKind {
    /// Its API version.
    pub api_version: &'static str,
    /// Its name.
    pub kind: &'static str,
    /// Its objects, of which little is kept that is nobody's.
    pub objects: Watch<AnyObject>,
}

/// All of the kinds. Copies share them.
#[derive(Clone)]
pub struct OwnedKinds(Arc<[OwnedKind]>);

/// The kinds that are watched with these plugins: API version and name.
pub fn kinds(registry: &Registry) -> Vec<(&'static str, &'static str)> {
    let mut kinds = vec![CONFIG_MAP, SECRET];
    for watch in registry.watches() {
        if let plugin::Watch::Owned(api_version, kind) = watch
            && !kinds.contains(&(api_version, kind))
        {
            kinds.push((api_version, kind));
        }
    }
    kinds
}

/// The definition of a kind, such as `jobsets.jobset.x-k8s.io`; none of a kind of Kubernetes itself.
pub fn definition(api_version: &str, kind: &str) -> Option<String> {
    let ApiResource { group, plural, .. } = resource(api_version, kind);
    group.contains('.').then(|| format!("{plural}.{group}"))
}

// === impl OwnedKinds ===

impl OwnedKinds {
    /// These.
    pub fn new(kinds: Vec<OwnedKind>) -> Self {
        Self(kinds.into())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (KindId, &OwnedKind)> {
        self.0.iter().enumerate().map(|(index, kind)| (KindId(index), kind))
    }

    /// One of them, by its name.
    pub fn id(&self, api_version: &str, kind: &str) -> Option<KindId> {
        let named = |known: &OwnedKind| known.api_version == api_version && known.kind == kind;
        self.0.iter().position(named).map(KindId)
    }

    /// An object.
    pub fn get(&self, kind: KindId, namespace: &str, name: &str) -> Option<Arc<AnyObject>> {
        self.0.get(kind.0)?.objects.named(namespace, name)
    }

    /// An object as JSON, with its kind.
    pub fn live(&self, kind: KindId, namespace: &str, name: &str) -> Option<Value> {
        let OwnedKind { api_version, kind, objects } = self.0.get(kind.0)?;
        let object = objects.named(namespace, name)?;
        let mut all = object.rest.clone();
        all.insert("apiVersion".to_owned(), (*api_version).into());
        all.insert("kind".to_owned(), (*kind).into());
        let metadata = serde_json::to_value(&object.metadata).unwrap_or_default();
        all.insert("metadata".to_owned(), metadata);
        Some(Value::Object(all))
    }

    /// The metadata of an object.
    pub fn metadata(&self, kind: KindId, namespace: &str, name: &str) -> Option<ObjectMeta> {
        self.get(kind, namespace, name).map(|object| object.metadata.clone())
    }

    /// The version of an object.
    pub fn version(&self, kind: KindId, namespace: &str, name: &str) -> Option<ObjectVersion> {
        self.get(kind, namespace, name).map(|object| ObjectVersion::from(&object.metadata))
    }
}

/// What is kept of objects of a kind.
pub fn trim_of(kind: (&str, &str)) -> fn(&mut AnyObject) {
    match kind {
        CONFIG_MAP => trim_config_map,
        SECRET => trim_secret,
        _ => trim_made,
    }
}

/// Of what may be a job's: of the owners of fields our own alone.
fn trim_made(object: &mut AnyObject) {
    forget_types(object);
    if let Some(fields) = &mut object.metadata.managed_fields {
        let own = |manager: &Option<String>| manager.as_deref() == Some(FIELD_MANAGER);
        let applied = |operation: &Option<String>| operation.as_deref() == Some("Apply");
        fields.retain(|entry| own(&entry.manager) && applied(&entry.operation));
    }
}

/// Of ConfigMaps of others only the name is kept.
fn trim_config_map(map: &mut AnyObject) {
    match controller(&map.metadata) {
        Some(_) => trim_made(map),
        None => trim_foreign(map, Map::new()),
    }
}

/// Of Secrets nothing is kept that is secret: of the coordinator's own certificates those of its authorities, which trainers
/// get that report their progress.
fn trim_secret(secret: &mut AnyObject) {
    let own = secret.metadata.name.as_deref() == Some(CERTS_SECRET);
    let authority = secret.rest.get("data").and_then(|data| data.get(AUTHORITY));
    let authority = authority.filter(|_| own).cloned();
    let data = authority.map(|authority| json!({ AUTHORITY: authority }));
    match controller(&secret.metadata) {
        Some(_) => {
            trim_made(secret);
            secret.rest.remove("stringData");
            secret.rest.remove("data");
            secret.rest.extend(data.map(|data| ("data".to_owned(), data)));
        }
        None => {
            trim_foreign(secret, data.map(|data| ("data".to_owned(), data)).into_iter().collect());
        }
    }
}

/// A list has none, and the cache knows them.
fn forget_types(object: &mut AnyObject) {
    object.rest.remove("apiVersion");
    object.rest.remove("kind");
}

fn trim_foreign(object: &mut AnyObject, data: Map<String, Value>) {
    object.rest = data;
    object.metadata.managed_fields = None;
    object.metadata.labels = None;
    object.metadata.annotations = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, owned: bool) -> AnyObject {
        let mut object: AnyObject = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "data": {"ca.crt": "YQ==", "key": "YQ=="}, "stringData": {"key": "a"},
            "metadata": {"name": name, "namespace": "n", "labels": {"a": "b"}, "managedFields": [
                {"manager": FIELD_MANAGER, "operation": "Apply"}, {"manager": "kubectl", "operation": "Apply"}]}}))
        .unwrap();
        if owned {
            let owner = json!([{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "a",
                "uid": "u", "controller": true}]);
            object.metadata.owner_references = serde_json::from_value(owner).unwrap();
        }
        object
    }

    #[test]
    fn nothing_secret_is_kept_but_who_signs_is() {
        for (name, owned, kept) in [
            ("keys", true, json!({"type": "Opaque"})),
            ("keys", false, json!({})),
            (CERTS_SECRET, false, json!({"data": {"ca.crt": "YQ=="}})),
        ] {
            let mut secret = object(name, owned);
            trim_of(SECRET)(&mut secret);
            assert_eq!(Value::Object(secret.rest), kept, "{name} {owned}");
        }
    }

    #[test]
    fn of_what_a_job_owns_our_fields_are_kept_and_of_others_the_name() {
        let (mut own, mut other) = (object("a", true), object("a", false));
        trim_of(CONFIG_MAP)(&mut own);
        trim_of(CONFIG_MAP)(&mut other);
        assert_eq!(own.metadata.managed_fields.map(|fields| fields.len()), Some(1));
        assert!(own.rest["data"].is_object());
        assert!(other.metadata.labels.is_none() && other.rest.is_empty());
    }

    #[test]
    fn all_kinds_that_plugins_declare_are_watched() {
        let kinds = kinds(&Registry::standard());
        for kind in [
            CONFIG_MAP,
            SECRET,
            ("jobset.x-k8s.io/v1alpha2", "JobSet"),
            ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
            ("scheduling.volcano.sh/v1beta1", "PodGroup"),
            ("scheduling.run.ai/v2alpha2", "PodGroup"),
        ] {
            assert_eq!(kinds.iter().filter(|known| **known == kind).count(), 1, "{kind:?}");
        }
        assert_eq!(definition("v1", "Secret"), None);
        let job_set = definition("jobset.x-k8s.io/v1alpha2", "JobSet");
        assert_eq!(job_set.as_deref(), Some("jobsets.jobset.x-k8s.io"));
    }
}
