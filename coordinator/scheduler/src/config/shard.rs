//! From a `SchedulingShard` to the configuration that KAI's operator would write for it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    ActionName, Config, ConfigError, Note, PLUGINS, PluginOption, budgets,
    names::{add_generators, plugin as name},
    parse::{Scalar, read},
    usage,
};

/// Plugins and how far in front they stand if nothing is said.
const PLUGIN_PRIORITIES: [(&str, i64); 22] = [
    (name::PREDICATES, 1900),
    (name::PROPORTION, 1800),
    (name::PRIORITY, 1700),
    (name::NODE_AVAILABILITY, 1600),
    (name::RESOURCE_TYPE, 1500),
    (name::POD_AFFINITY, 1400),
    (name::ELASTIC, 1300),
    (name::KUBEFLOW, 1200),
    (name::RAY, 1100),
    (name::SUBGROUP_ORDER, 1000),
    (name::TASK_ORDER, 900),
    (name::NOMINATED_NODE, 800),
    (name::DYNAMIC_RESOURCES, 700),
    (name::MIN_RUNTIME, 600),
    (name::TOPOLOGY, 500),
    (name::SNAPSHOT, 400),
    (name::NODE_LOCAL_GREEDY, 360),
    (name::MULTI_NODE_GANG, 350),
    (name::GPU_PACK, 300),
    (name::GPU_SPREAD, 300),
    (name::NODE_PLACEMENT, 200),
    (name::GPU_SHARING_ORDER, 100),
];

#[derive(Default, Deserialize)]
#[serde(default)]
struct Shard {
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    args: Option<BTreeMap<String, Scalar>>,
    placement_strategy: Option<Placement>,
    partition_label_value: Option<String>,
    queue_depth_per_action: Option<BTreeMap<String, i64>>,
    min_runtime: Option<MinRuntime>,
    k_value: Option<f64>,
    scenario_search_budgets: Option<budgets::Written>,
    #[serde(rename = "usageDBConfig")]
    usage: Option<usage::Written>,
    plugins: Option<BTreeMap<String, Override>>,
    actions: Option<BTreeMap<String, Override>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Placement {
    gpu: Option<String>,
    cpu: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MinRuntime {
    preempt_min_runtime: Option<String>,
    reclaim_min_runtime: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Override {
    enabled: Option<bool>,
    priority: Option<i64>,
    arguments: Option<BTreeMap<String, Scalar>>,
}

/// A plugin or an action on its way into the list.
struct Entry {
    option: PluginOption,
    enabled: bool,
    priority: i64,
}

/// The configuration that KAI's operator would write for a `SchedulingShard` (YAML or JSON). `own` are names of plugins that are not
/// built in.
pub fn shard(text: &str, own: &[&str]) -> Result<Config, ConfigError> {
    let spec = read::<Shard>(text)?.unwrap_or_default().spec;
    let mut config = Config::default();
    let placement = spec.placement_strategy.unwrap_or_default();
    let gpu = strategy("gpu", placement.gpu)?;
    let cpu = strategy("cpu", placement.cpu)?;
    let spread = |strategy: &str| strategy == "spread";

    let mut plugins: Vec<Entry> = PLUGIN_PRIORITIES
        .iter()
        .map(|(plugin, priority)| {
            let packs = [name::GPU_PACK, name::GPU_SHARING_ORDER].contains(plugin);
            let enabled = !(packs && spread(&gpu) || *plugin == name::GPU_SPREAD && !spread(&gpu));
            Entry { option: PluginOption::new(plugin), enabled, priority: *priority }
        })
        .collect();
    let mut tell = |plugin: &str, argument: &str, value: Option<String>| {
        let entry = plugins.iter_mut().find(|entry| entry.option.name == plugin);
        if let (Some(entry), Some(value)) = (entry, value) {
            entry.option.arguments.insert(argument.to_owned(), value);
        }
    };
    let min_runtime = spec.min_runtime.unwrap_or_default();
    tell(name::MIN_RUNTIME, "defaultPreemptMinRuntime", min_runtime.preempt_min_runtime);
    tell(name::MIN_RUNTIME, "defaultReclaimMinRuntime", min_runtime.reclaim_min_runtime);
    tell(name::PROPORTION, "kValue", spec.k_value.map(|k| k.to_string()));
    let no_consolidation = spread(&gpu) || spread(&cpu);
    tell(name::NODE_PLACEMENT, "gpu", Some(gpu));
    tell(name::NODE_PLACEMENT, "cpu", Some(cpu));
    overlay(&mut plugins, spec.plugins.unwrap_or_default());
    config.plugins = in_order(plugins);
    config.plugins.retain(|plugin| {
        let known = PLUGINS.contains(&plugin.name.as_str()) || own.contains(&plugin.name.as_str());
        if !known {
            let problem = format!("there is no plugin `{}`, so it is left out", plugin.name);
            let remedy = "correct its name, or build it in".to_owned();
            config.notes.push(Note { line: 0, problem, remedy });
        }
        known
    });
    add_generators(&mut config.plugins);

    let rank = |action| ActionName::ALL.iter().rev().position(|known| *known == action);
    let mut actions: Vec<Entry> = ActionName::ALL
        .into_iter()
        .map(|action| Entry {
            option: PluginOption::new(action.name()),
            enabled: action != ActionName::Consolidation || !no_consolidation,
            priority: rank(action).map_or(0, |rank| (rank as i64 + 1) * 100),
        })
        .collect();
    overlay(&mut actions, spec.actions.unwrap_or_default());
    let actions = in_order(actions).into_iter().map(|option| action(&option.name));
    config.actions = actions.collect::<Result<_, _>>()?;

    for (name, depth) in spec.queue_depth_per_action.unwrap_or_default() {
        let depth = usize::try_from(depth).map_err(|_| {
            value(format!("spec.queueDepthPerAction.{name}"), "it must be zero or more".to_owned())
        })?;
        config.queue_depth.insert(action(&name)?, depth);
    }
    if let Some(written) = spec.scenario_search_budgets {
        let wrong =
            |(field, problem)| value(format!("spec.scenarioSearchBudgets.{field}"), problem);
        config.budgets = written.resolve().map_err(wrong)?;
    }
    if let Some(written) = spec.usage {
        let wrong = |(field, problem)| value(format!("spec.usageDBConfig.{field}"), problem);
        config.usage = Some(written.resolve().map_err(wrong)?);
    }
    config.params.node_pool.key = "kai.scheduler/node-pool".to_owned();
    config.params.node_pool.value = spec.partition_label_value.unwrap_or_default();
    super::params::flags(&mut config, spec.args.unwrap_or_default())?;
    Ok(config)
}

fn strategy(field: &str, written: Option<String>) -> Result<String, ConfigError> {
    let strategy = written.filter(|strategy| !strategy.is_empty()).unwrap_or("binpack".to_owned());
    if ["binpack", "spread"].contains(&strategy.as_str()) {
        return Ok(strategy);
    }
    let problem = format!("`{strategy}` is no strategy: use binpack or spread");
    Err(value(format!("spec.placementStrategy.{field}"), problem))
}

fn overlay(entries: &mut Vec<Entry>, overrides: BTreeMap<String, Override>) {
    for (name, told) in overrides {
        let at = entries.iter().position(|entry| entry.option.name == name);
        let at = at.unwrap_or_else(|| {
            entries.push(Entry { option: PluginOption::new(&name), enabled: true, priority: 0 });
            entries.len() - 1
        });
        let Some(entry) = entries.get_mut(at) else { continue };
        entry.enabled = told.enabled.unwrap_or(entry.enabled);
        entry.priority = told.priority.unwrap_or(entry.priority);
        if let Some(arguments) = told.arguments {
            entry.option.arguments =
                arguments.into_iter().map(|(name, value)| (name, value.text())).collect();
        }
    }
}

fn in_order(mut entries: Vec<Entry>) -> Vec<PluginOption> {
    entries.retain(|entry| entry.enabled);
    entries.sort_by(|a, b| {
        b.priority.cmp(&a.priority).then_with(|| a.option.name.cmp(&b.option.name))
    });
    entries.into_iter().map(|entry| entry.option).collect()
}

fn action(name: &str) -> Result<ActionName, ConfigError> {
    ActionName::parse(name).ok_or_else(|| ConfigError::Action { line: 0, name: name.to_owned() })
}

pub(super) fn value(field: String, problem: String) -> ConfigError {
    ConfigError::Value { line: 0, field, problem }
}
