//! What pods ask of places beside resources: selectors, tolerations, ports, config maps, volumes.

use std::collections::HashSet;

use crate::{
    input::{self, Pod},
    snapshot::Constraints,
};

use super::Builder;

/// Namespaces and names of config maps: most pods name some.
pub(super) fn config_maps(input: &input::Input) -> HashSet<(&str, &str)> {
    let metas = input.config_maps.iter().map(|map| &map.metadata);
    metas.map(|meta| (meta.namespace.as_str(), meta.name.as_str())).collect()
}

// === impl Builder ===

impl Builder<'_> {
    pub(super) fn constraints(&self, pod: &Pod, keep_labels: bool) -> Constraints {
        let containers = || pod.spec.containers.iter().chain(&pod.spec.init_containers);
        let mut ports: Vec<_> = containers()
            .flat_map(|container| &container.ports)
            .filter(|port| port.host_port > 0)
            .cloned()
            .collect();
        ports.sort();
        let affinity =
            pod.spec.affinity.clone().filter(|affinity| **affinity != input::Affinity::default());
        let missing_config_maps = self.missing_config_maps(pod);
        let (claims, missing_claims) = self.volume_claims(pod);
        let matters = keep_labels || !claims.is_empty() || affinity.is_some();
        Constraints {
            namespace: if matters { pod.metadata.namespace.clone() } else { String::new() },
            node_selector: pod.spec.node_selector.clone(),
            affinity,
            tolerations: pod.spec.tolerations.clone(),
            ports,
            missing_config_maps,
            claims,
            missing_claims,
            labels: if keep_labels {
                pod.metadata.labels.clone()
            } else {
                input::Labels::default()
            },
            device_claims: Vec::new(),
            shared_gpus: Vec::new(),
            bad_device_claims: Vec::new(),
        }
    }

    fn missing_config_maps(&self, pod: &Pod) -> Vec<String> {
        let shared = pod
            .metadata
            .annotations
            .get("runai/shared-gpu-configmap")
            .filter(|name| !name.is_empty());
        let mut missing = Vec::new();
        let mut check = |reference: &input::ConfigMapReference| {
            let named = (pod.metadata.namespace.as_str(), reference.name.as_str());
            let exists = || self.config_maps.contains(&named);
            let made_later = shared.is_some_and(|prefix| reference.name.starts_with(prefix));
            if !reference.optional.unwrap_or(false) && !made_later && !exists() {
                missing.push(reference.name.clone());
            }
        };
        let spec = &pod.spec;
        let containers = || {
            spec.containers.iter().chain(&spec.init_containers).chain(&spec.ephemeral_containers)
        };
        for volume in &spec.volumes {
            let mounted = containers().any(|container| {
                container.volume_mounts.iter().any(|mount| mount.name == volume.name)
            });
            if mounted {
                volume.config_maps().for_each(&mut check);
            }
        }
        for container in containers() {
            for env in &container.env {
                if let Some(reference) =
                    env.value_from.as_ref().and_then(|from| from.config_map_key_ref.as_ref())
                {
                    check(reference);
                }
            }
            for from in &container.env_from {
                if let Some(reference) = &from.config_map_ref {
                    check(reference);
                }
            }
        }
        missing.sort();
        missing.dedup();
        missing
    }
}
