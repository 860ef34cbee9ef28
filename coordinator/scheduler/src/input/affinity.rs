//! What a pod asks of the place where it runs: selectors, affinities, taints and tolerations.

use serde::{Deserialize, Serialize};

use super::meta::{Labels, or_default};

/// Where a pod wants to be, or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// On which nodes.
    #[serde(deserialize_with = "or_default")]
    pub node_affinity: NodeAffinity,
    /// Near which pods.
    #[serde(deserialize_with = "or_default")]
    pub pod_affinity: PodAffinity,
    /// Away from which pods.
    #[serde(deserialize_with = "or_default")]
    pub pod_anti_affinity: PodAffinity,
}

/// On which nodes a pod wants to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    /// It must be on one of these.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
    /// It would rather be on these.
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "or_default"
    )]
    pub preferred: Vec<WeightedNodeSelectorTerm>,
}

/// Nodes: one of the terms must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// Terms of which one must match.
    #[serde(deserialize_with = "or_default")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// Nodes: all that is asked must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    /// Conditions on labels, all of which must hold.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Requirement>,
    /// Of fields; only `metadata.name` is known.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub match_fields: Vec<Requirement>,
}

/// A term that counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightedNodeSelectorTerm {
    /// How much a match counts.
    pub weight: i32,
    /// The preferred nodes.
    #[serde(deserialize_with = "or_default")]
    pub preference: NodeSelectorTerm,
}

/// What is asked of one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// How the label is compared.
    pub operator: Operator,
    /// The values that the label is compared with.
    #[serde(default, deserialize_with = "or_default")]
    pub values: Vec<String>,
}

/// How a label is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// Its value is one of these.
    In,
    /// It is absent or its value is none of these.
    NotIn,
    /// It is there.
    Exists,
    /// It is absent.
    DoesNotExist,
    /// Its value is a larger number.
    Gt,
    /// Its value is a smaller number.
    Lt,
}

/// Near which pods a pod wants to be, or away from them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(default)]
pub struct PodAffinity {
    /// Terms that must hold.
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "or_default"
    )]
    pub required: Vec<PodAffinityTerm>,
    /// It would rather.
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "or_default"
    )]
    pub preferred: Vec<WeightedPodAffinityTerm>,
}

/// Which pods, and how near.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinityTerm {
    /// Which pods; none matches nothing.
    pub label_selector: Option<LabelSelector>,
    /// In which namespaces; none is the pod's own.
    #[serde(deserialize_with = "or_default")]
    pub namespaces: Vec<String>,
    /// In namespaces with these labels; an empty one is all.
    pub namespace_selector: Option<LabelSelector>,
    /// Nodes with one value of this label are near.
    pub topology_key: String,
    /// Labels whose value must be that of the pod itself.
    #[serde(deserialize_with = "or_default")]
    pub match_label_keys: Vec<String>,
    /// Labels whose value must not be that of the pod itself.
    #[serde(deserialize_with = "or_default")]
    pub mismatch_label_keys: Vec<String>,
}

/// A term that counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightedPodAffinityTerm {
    /// How much a match counts.
    pub weight: i32,
    /// The pods to be near to, or far from.
    #[serde(deserialize_with = "or_default")]
    pub pod_affinity_term: PodAffinityTerm,
}

/// Objects by their labels: all that is asked must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels with these values.
    pub match_labels: Labels,
    /// Further conditions, all of which must hold.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Requirement>,
}

/// What keeps pods off a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// The taint's key.
    pub key: String,
    /// The value of the taint.
    pub value: String,
    /// What it does.
    pub effect: Effect,
}

/// What a taint does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub enum Effect {
    /// No new pods.
    #[default]
    NoSchedule,
    /// No new pods if it can be helped.
    PreferNoSchedule,
    /// No pods at all.
    NoExecute,
}

/// A taint that a pod bears.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// The taint's name; empty with `Exists` is every taint.
    pub key: String,
    /// How its value is compared.
    pub operator: TolerationOperator,
    /// The value of the taint.
    pub value: String,
    /// What it does; none is every effect.
    #[serde(deserialize_with = "effect")]
    pub effect: Option<Effect>,
}

/// How a taint's value is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub enum TolerationOperator {
    /// It is the same.
    #[default]
    #[serde(alias = "")]
    Equal,
    /// Any value is tolerated.
    Exists,
    /// It is a larger number.
    Gt,
    /// It is a smaller number.
    Lt,
}

// === impl Requirement ===

impl Requirement {
    /// Whether it holds for a value, or for its absence.
    pub fn matches(&self, value: Option<&str>) -> bool {
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.iter().any(|v| v == value)),
            Operator::NotIn => value.is_none_or(|value| self.values.iter().all(|v| v != value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => self.compares(value, |value, bound| value > bound),
            Operator::Lt => self.compares(value, |value, bound| value < bound),
        }
    }

    fn compares(&self, value: Option<&str>, holds: impl Fn(i64, i64) -> bool) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        let [bound] = self.values.as_slice() else { return false };
        match (value.and_then(number), number(bound)) {
            (Some(value), Some(bound)) => holds(value, bound),
            _ => false,
        }
    }
}

// === impl LabelSelector ===

impl LabelSelector {
    /// Whether labels are what is asked; an empty selector takes everything.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.match_labels.iter().all(|(name, value)| labels.get(name) == Some(value))
            && self.match_expressions.iter().all(|asked| asked.matches(labels.get(&asked.key)))
    }
}

// === impl NodeSelector ===

impl NodeSelector {
    /// Whether a node is one of those; no term takes nothing.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        self.node_selector_terms.iter().any(|term| term.matches(name, labels))
    }
}

// === impl NodeSelectorTerm ===

impl NodeSelectorTerm {
    /// Whether a node is what is asked; an empty term takes nothing.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        let empty = self.match_expressions.is_empty() && self.match_fields.is_empty();
        let field = |key: &str| (key == "metadata.name").then_some(name);
        !empty
            && self.match_expressions.iter().all(|asked| asked.matches(labels.get(&asked.key)))
            && self.match_fields.iter().all(|asked| asked.matches(field(&asked.key)))
    }
}

// === impl Toleration ===

impl Toleration {
    /// Whether it bears a taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect)
            || (!self.key.is_empty() && self.key != taint.key)
        {
            return false;
        }
        let numbers = || Some((taint.value.parse::<i64>().ok()?, self.value.parse::<i64>().ok()?));
        match self.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => self.value == taint.value,
            TolerationOperator::Gt => numbers().is_some_and(|(taint, bound)| taint > bound),
            TolerationOperator::Lt => numbers().is_some_and(|(taint, bound)| taint < bound),
        }
    }
}

/// An empty effect is every effect.
fn effect<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Effect>, D::Error> {
    #[derive(Deserialize)]
    enum Written {
        #[serde(rename = "")]
        Any,
        NoSchedule,
        PreferNoSchedule,
        NoExecute,
    }
    Ok(Option::<Written>::deserialize(deserializer)?.and_then(|written| match written {
        Written::Any => None,
        Written::NoSchedule => Some(Effect::NoSchedule),
        Written::PreferNoSchedule => Some(Effect::PreferNoSchedule),
        Written::NoExecute => Some(Effect::NoExecute),
    }))
}
