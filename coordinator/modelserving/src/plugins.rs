//! What a ModelServing's plugins do to its pods, one after the other.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use sha1::{Digest, Sha1};

use crate::api::{ModelServing, Plugin, PluginScope};
use crate::lws;
use crate::naming;
use crate::pod::{Slot, each_container};

/// The plugins of a ModelServing, in their order.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    links: Vec<Link>,
}

#[derive(Clone, Debug)]
struct Link {
    scope: Option<PluginScope>,
    does: Does,
}

#[derive(Clone, Debug)]
enum Does {
    Tweaks(Tweaks),
    LeaderWorkerSet,
}

/// `demo-pod-tweaks`: a runtime class, annotations, variables.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Tweaks {
    runtime_class_name: String,
    annotations: BTreeMap<String, String>,
    env: Vec<BTreeMap<String, Value>>,
}

// === impl Chain ===

impl Chain {
    /// The plugins as they are asked for; none of them if one is unknown.
    pub fn read(plugins: &[Plugin]) -> Result<Chain, String> {
        let links: Result<_, String> = plugins.iter().map(Link::read).collect();
        Ok(Chain { links: links? })
    }

    pub(crate) fn pod(
        &self,
        serving: &ModelServing,
        slot: &Slot<'_>,
        pod: &mut Value,
    ) -> Result<(), String> {
        for link in self.links.iter().filter(|link| link.is_for(slot)) {
            match &link.does {
                Does::Tweaks(tweaks) => tweaks.pod(pod),
                Does::LeaderWorkerSet => leader_worker_set(serving, slot, pod)?,
            }
        }
        Ok(())
    }
}

// === impl Link ===

impl Link {
    fn read(plugin: &Plugin) -> Result<Link, String> {
        let name = &plugin.name;
        if plugin.kind != "BuiltIn" {
            return Err(format!("plugin {name} has unsupported type {}", plugin.kind));
        }
        let does = match name.as_str() {
            "demo-pod-tweaks" => Does::Tweaks(match &plugin.config {
                None | Some(Value::Null) => Tweaks::default(),
                Some(config) => Tweaks::deserialize(config)
                    .map_err(|error| format!("build plugin {name}: {error}"))?,
            }),
            lws::PLUGIN => Does::LeaderWorkerSet,
            _ => return Err(format!("plugin {name} not registered")),
        };
        Ok(Link { scope: plugin.scope.clone(), does })
    }

    fn is_for(&self, slot: &Slot<'_>) -> bool {
        let Some(scope) = &self.scope else { return true };
        let role = scope.roles.is_empty() || scope.roles.iter().any(|role| role == slot.role);
        let target = match scope.target.as_str() {
            "" | "All" => true,
            "Entry" => slot.index == 0,
            "Worker" => slot.index != 0,
            _ => false,
        };
        role && target
    }
}

// === impl Tweaks ===

impl Tweaks {
    fn pod(&self, pod: &mut Value) {
        if !self.runtime_class_name.is_empty() {
            pod["spec"]["runtimeClassName"] = self.runtime_class_name.as_str().into();
        }
        for (key, value) in &self.annotations {
            pod["metadata"]["annotations"][key] = value.as_str().into();
        }
        if let Some(spec) = pod["spec"].as_object_mut().filter(|_| !self.env.is_empty()) {
            each_container(spec, |env| env.extend(self.env.iter().map(|it| json!(it))));
        }
    }
}

/// `lws-standard-labels`: the labels that pods of a LeaderWorkerSet have, if one owns the ModelServing.
fn leader_worker_set(
    serving: &ModelServing,
    slot: &Slot<'_>,
    pod: &mut Value,
) -> Result<(), String> {
    let owners = serving.metadata.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|it| it.kind == lws::KIND && !it.name.is_empty());
    let Some(set) = owner.map(|owner| owner.name.as_str()) else { return Ok(()) };
    let group = naming::ordinal(slot.group);
    if group < 0 {
        return Err(format!("invalid servingGroup {:?} for pod {}", slot.group, slot.name));
    }
    let digest = Sha1::digest(format!("{set}-{group}"));
    let key: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let labels = &mut pod["metadata"]["labels"];
    labels[lws::NAME_LABEL] = set.into();
    labels[lws::GROUP_INDEX_LABEL] = group.to_string().into();
    labels[lws::WORKER_INDEX_LABEL] = slot.index.to_string().into();
    labels[lws::GROUP_KEY_LABEL] = key.into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(name: &str, kind: &str) -> Plugin {
        Plugin { name: name.to_owned(), kind: kind.to_owned(), ..Plugin::default() }
    }

    #[test]
    fn an_unknown_plugin_is_an_error() {
        let refused = [plugin("nope", "BuiltIn"), plugin("demo-pod-tweaks", "Webhook")];
        for plugin in refused {
            assert!(Chain::read(&[plugin]).is_err());
        }
        let mut odd = plugin("demo-pod-tweaks", "BuiltIn");
        odd.config = Some(json!({"env": "A=1"}));
        assert!(Chain::read(&[odd]).is_err());
    }

    #[test]
    fn a_scope_says_which_pods() {
        let mut plugin = plugin("demo-pod-tweaks", "BuiltIn");
        let scope = PluginScope { roles: vec!["a".to_owned()], target: "Worker".to_owned() };
        plugin.scope = Some(scope);
        let link = Link::read(&plugin).unwrap();
        let slot = |role, index| Slot {
            serving: "s",
            namespace: "n",
            group: "s-0",
            role,
            role_id: "a-0",
            index,
            size: 2,
            name: "p",
            roles: &[],
        };
        assert!(link.is_for(&slot("a", 1)));
        assert!(!link.is_for(&slot("a", 0)));
        assert!(!link.is_for(&slot("b", 1)));
    }
}
