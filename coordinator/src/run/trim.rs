//! What caches keep of objects: what is looked at, and no more.

use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceValidation, JSONSchemaProps,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::Resource;
use kube::core::ObjectMeta;

use crate::names;
use crate::workloads::modelserving::written::KthenaServing;

/// Of a pod only this is looked at.
pub(super) fn trim_pod(pod: &mut Pod) {
    trim_meta(&mut pod.metadata);
    if let Some(spec) = pod.spec.take() {
        let volumes = spec.volumes.map(|volumes| {
            volumes.into_iter().filter(|volume| volume.name == names::VOLUME).collect()
        });
        pod.spec = Some(PodSpec { node_name: spec.node_name, volumes, ..PodSpec::default() });
    }
    if let Some(status) = pod.status.take() {
        let (phase, pod_ip, host_ip) = (status.phase, status.pod_ip, status.host_ip);
        pod.status = Some(PodStatus { phase, pod_ip, host_ip, ..PodStatus::default() });
    }
}

/// Of a ModelServing's pod only this is looked at.
pub(super) fn trim_serving_pod(pod: &mut Pod) {
    trim_meta(&mut pod.metadata);
    pod.spec = None;
    if let Some(status) = pod.status.take() {
        let conditions = status.conditions.map(|conditions| {
            conditions.into_iter().filter(|condition| condition.type_ == "Ready").collect()
        });
        pod.status = Some(PodStatus {
            phase: status.phase,
            conditions,
            container_statuses: status.container_statuses,
            init_container_statuses: status.init_container_statuses,
            ..PodStatus::default()
        });
    }
}

/// Of a ModelServing all is kept, and of the owners of its fields we alone: those that are made of LeaderWorkerSets are applied.
pub(super) fn trim_serving(serving: &mut KthenaServing) {
    let applied = |entry: &ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(names::FIELD_MANAGER)
            && entry.operation.as_deref() == Some("Apply")
    };
    let fields = &mut serving.0.metadata.managed_fields;
    *fields = fields.take().map(|all| all.into_iter().filter(applied).collect());
}

pub(super) fn trim<K: Resource>(object: &mut K) {
    trim_meta(object.meta_mut());
}

/// Of a definition only its versions are looked at, and which fields a spec has. Whole schemas would be larger than all else.
pub(super) fn trim_definition(definition: &mut CustomResourceDefinition) {
    trim(definition);
    definition.metadata.annotations = None;
    definition.status = None;
    for version in &mut definition.spec.versions {
        let schema = version.schema.take().and_then(|schema| schema.open_api_v3_schema);
        let spec = schema.and_then(|schema| schema.properties?.remove("spec"));
        let fields = spec.and_then(|spec| spec.properties).unwrap_or_default();
        let names = fields.into_keys().map(|name| (name, JSONSchemaProps::default()));
        let spec =
            JSONSchemaProps { properties: Some(names.collect()), ..JSONSchemaProps::default() };
        let schema = JSONSchemaProps {
            properties: Some([("spec".to_owned(), spec)].into()),
            ..JSONSchemaProps::default()
        };
        version.schema = Some(CustomResourceValidation { open_api_v3_schema: Some(schema) });
    }
}

fn trim_meta(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workloads::modelserving::written::pod_group_api;

    #[test]
    fn of_the_fields_of_a_serving_those_are_kept_that_we_have_applied() {
        let mut serving: KthenaServing = serde_json::from_value(json!({"spec": {"replicas": 2},
            "metadata": {"name": "a", "managedFields": [
                {"manager": names::FIELD_MANAGER, "operation": "Apply"},
                {"manager": names::FIELD_MANAGER, "operation": "Update", "subresource": "status"},
                {"manager": "kubectl", "operation": "Apply"}]}}))
        .unwrap();
        trim_serving(&mut serving);
        let kept = serving.0.metadata.managed_fields.unwrap();
        let [own] = &kept[..] else { panic!("{kept:?}") };
        assert_eq!(own.operation.as_deref(), Some("Apply"));
        assert_eq!(serving.0.rest["spec"], json!({"replicas": 2}));
    }

    #[test]
    fn a_definition_keeps_its_versions_and_the_names_of_fields() {
        let of = |fields: serde_json::Value| -> CustomResourceDefinition {
            let schema = json!({"type": "object", "properties": {"status": {"type": "object"},
                "spec": {"type": "object", "properties": fields}}});
            let version = json!({"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}});
            let definition = json!({"metadata": {"name": "podgroups.scheduling.volcano.sh"},
                "spec": {"group": "g", "scope": "Namespaced", "names": {"kind": "K", "plural": "k"},
                    "versions": [version]}});
            serde_json::from_value(definition).unwrap()
        };
        for fields in [json!({"subGroupPolicy": {"type": "array"}}), json!({"queue": {}})] {
            let whole = of(fields);
            let mut trimmed = whole.clone();
            trim_definition(&mut trimmed);
            assert_eq!(pod_group_api(&trimmed), pod_group_api(&whole));
            let [version] = trimmed.spec.versions.as_slice() else { panic!("one version") };
            assert!(version.served && version.name == "v1");
            let text = serde_json::to_string(&trimmed).unwrap();
            assert!(!text.contains("array") && !text.contains("status"), "{text}");
        }
    }
}
