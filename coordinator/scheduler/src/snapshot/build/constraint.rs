//! What pods ask of places beside resources: selectors, tolerations, ports, config maps, volumes, claims of devices.

use crate::{
    input::{self, Pod},
    snapshot::Constraints,
};

use super::Builder;

// === impl Builder ===

impl Builder<'_> {
    pub(super) fn claimed_gpus(&self, pod: &Pod) -> i64 {
        let mut count: i64 = 0;
        for claim in self.device_claims(pod) {
            let Some(object) = self.input.resource_claims.iter().find(|object| {
                object.metadata.namespace == pod.metadata.namespace && object.metadata.name == claim
            }) else {
                continue;
            };
            for request in &object.spec.devices.requests {
                let Some(exactly) = &request.exactly else { continue };
                if !exactly.device_class_name.to_lowercase().contains("gpu") {
                    continue;
                }
                let wanted = match exactly.allocation_mode {
                    Some(input::AllocationMode::All) => 1,
                    _ => exactly.count.unwrap_or(1).max(1),
                };
                count = count.saturating_add(wanted);
            }
        }
        count
    }

    /// Names of the claims of devices that a pod has.
    pub(super) fn device_claims(&self, pod: &Pod) -> Vec<String> {
        let made = |name: &str| {
            pod.status
                .resource_claim_statuses
                .iter()
                .find(|status| status.name == name)
                .and_then(|status| status.resource_claim_name.clone())
        };
        pod.spec
            .resource_claims
            .iter()
            .filter_map(|claim| claim.resource_claim_name.clone().or_else(|| made(&claim.name)))
            .collect()
    }

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
        let device_claims = self.device_claims(pod);
        let bad_device_claims = device_claims
            .iter()
            .filter(|name| {
                !self.input.resource_claims.iter().any(|object| {
                    object.metadata.namespace == pod.metadata.namespace
                        && object.metadata.name == **name
                })
            })
            .map(|name| format!("claim {name} does not exist"))
            .collect();
        let matters =
            keep_labels || !device_claims.is_empty() || !claims.is_empty() || affinity.is_some();
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
            device_claims,
            bad_device_claims,
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
            let exists = || {
                self.input.config_maps.iter().any(|map| {
                    map.metadata.namespace == pod.metadata.namespace
                        && map.metadata.name == reference.name
                })
            };
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
