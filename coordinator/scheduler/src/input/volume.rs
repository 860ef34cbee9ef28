//! A pod's volumes and environment, as far as they name config maps and claims.

use serde::Deserialize;

use super::{
    meta::or_default,
    storage::{ClaimSpecOfVolume, VolumeClaimTemplate},
};

/// A volume of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Its name in the pod.
    pub name: String,
    /// The claim that the volume uses, if it does.
    pub persistent_volume_claim: Option<ClaimOfVolume>,
    /// A claim that is made with the pod.
    pub ephemeral: Option<EphemeralVolume>,
    /// A config map.
    pub config_map: Option<ConfigMapReference>,
    /// Several things in one.
    pub projected: Option<Projected>,
}

/// Which claim a volume is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimOfVolume {
    /// Name of the PersistentVolumeClaim.
    pub claim_name: String,
}

/// A claim that is made with the pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EphemeralVolume {
    /// What it is made from.
    pub volume_claim_template: Option<VolumeClaimTemplate>,
}

/// Several things in one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Projected {
    /// The sources that are projected.
    #[serde(deserialize_with = "or_default")]
    pub sources: Vec<ProjectedSource>,
}

/// One of several things.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectedSource {
    /// A config map.
    pub config_map: Option<ConfigMapReference>,
}

/// A config map that something needs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConfigMapReference {
    /// Name of the ConfigMap.
    pub name: String,
    /// Whether it may be missing.
    pub optional: Option<bool>,
}

/// A variable of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Env {
    /// Where its value is from.
    pub value_from: Option<EnvSource>,
}

/// Where a value is from.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvSource {
    /// A config map.
    pub config_map_key_ref: Option<ConfigMapReference>,
}

/// Variables of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvFrom {
    /// A config map.
    pub config_map_ref: Option<ConfigMapReference>,
}

/// A volume that a container sees.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeMount {
    /// The volume's name in the pod.
    pub name: String,
}

// === impl Volume ===

impl Volume {
    /// The claim that the volume of a pod is: by name, or made with the pod.
    pub fn claim_name(&self, pod: &str) -> Option<String> {
        match (&self.persistent_volume_claim, &self.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.clone()),
            (None, Some(_)) => Some(format!("{pod}-{}", self.name)),
            (None, None) => None,
        }
    }

    /// What the claim that is made with the pod asks for.
    pub fn ephemeral_claim(&self) -> Option<&ClaimSpecOfVolume> {
        Some(&self.ephemeral.as_ref()?.volume_claim_template.as_ref()?.spec)
    }

    /// Config maps that must be there.
    pub fn config_maps(&self) -> impl Iterator<Item = &ConfigMapReference> {
        let projected = self.projected.iter().flat_map(|projected| &projected.sources);
        self.config_map.iter().chain(projected.filter_map(|source| source.config_map.as_ref()))
    }
}
