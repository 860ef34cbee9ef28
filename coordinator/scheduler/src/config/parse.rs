//! Reads a configuration file.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{
    ActionName, Config, Note, PLUGINS, PluginOption, budgets, names::add_generators, usage,
};

/// A configuration file is small.
const LONGEST: usize = 1 << 20;

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It is too large.
    #[error("the configuration has more than {LONGEST} bytes: it is not a configuration")]
    TooLarge,
    /// It is no YAML, or a field has the wrong type.
    #[error("line {line}, column {column}: {problem}")]
    Yaml {
        /// Line of the file, from 1.
        line: u64,
        /// Column of the line, from 1.
        column: u64,
        /// What is wrong.
        problem: String,
    },
    /// It names an action that there is not.
    #[error("line {line}: there is no action `{name}`: use {}", known_actions())]
    Action {
        /// Line of the file, from 1.
        line: u64,
        /// The name that is not known.
        name: String,
    },
    /// A value makes no sense.
    #[error("line {line}: {field}: {problem}")]
    Value {
        /// Line of the file, from 1.
        line: u64,
        /// Path of the field.
        field: String,
        /// What is wrong.
        problem: String,
    },
    /// The command line's part cannot be read.
    #[error("schedulerParams.{field}: {problem}")]
    Params {
        /// Path of the field.
        field: String,
        /// What is wrong.
        problem: String,
    },
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    actions: Option<Spanned<String>>,
    tiers: Option<Vec<Tier>>,
    queue_depth_per_action: Option<Spanned<BTreeMap<String, i64>>>,
    scenario_search_budgets: Option<Spanned<budgets::Written>>,
    #[serde(rename = "usageDBConfig")]
    usage: Option<Spanned<usage::Written>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tier {
    plugins: Option<Vec<Plugin>>,
}

#[derive(Deserialize)]
struct Plugin {
    name: Spanned<String>,
    #[serde(default)]
    arguments: Option<BTreeMap<String, Scalar>>,
}

/// A value of an argument. Go wants text; a number that is not quoted means the same.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Scalar {
    Text(String),
    Bool(bool),
    Whole(i64),
    Number(f64),
    Nothing(()),
}

/// Reads a configuration. `own` are names of plugins that are not built in.
pub fn parse(text: &str, own: &[&str]) -> Result<Config, ConfigError> {
    let written: Option<Written> = read(text)?;
    let written = written.unwrap_or_default();
    let mut config = Config::default();
    if let Some(actions) = written.actions.filter(|actions| !actions.value.trim().is_empty()) {
        let line = actions.referenced.line();
        let names = actions.value.split(',').map(str::trim);
        config.actions = names.map(|name| action(name, line)).collect::<Result<_, _>>()?;
    }
    let tiers = written.tiers.unwrap_or_default();
    if !tiers.is_empty() {
        config.plugins.clear();
        for plugin in tiers.into_iter().flat_map(|tier| tier.plugins.unwrap_or_default()) {
            add(&mut config, plugin, own);
        }
        add_generators(&mut config.plugins);
    }
    if let Some(depths) = written.queue_depth_per_action {
        let line = depths.referenced.line();
        for (name, depth) in depths.value {
            let field = || format!("queueDepthPerAction.{name}");
            let problem = || "it must be a number of jobs, zero or more".to_owned();
            let depth = usize::try_from(depth).map_err(|_| ConfigError::Value {
                line,
                field: field(),
                problem: problem(),
            })?;
            config.queue_depth.insert(action(&name, line)?, depth);
        }
    }
    if let Some(budgets) = written.scenario_search_budgets {
        let line = budgets.referenced.line();
        let value = budgets.value.resolve();
        config.budgets = value.map_err(|(field, problem)| ConfigError::Value {
            line,
            field: format!("scenarioSearchBudgets.{field}"),
            problem,
        })?;
    }
    if let Some(usage) = written.usage {
        let line = usage.referenced.line();
        match usage.value.resolve() {
            Ok(usage) => config.usage = Some(usage),
            Err((field, problem)) => {
                let problem = format!("usageDBConfig.{field}: {problem}");
                let remedy = "until then past use does not count".to_owned();
                config.notes.push(Note { line, problem, remedy });
            }
        }
    }
    Ok(config)
}

/// Reads YAML, which JSON is.
pub(super) fn read<T: for<'de> Deserialize<'de>>(text: &str) -> Result<Option<T>, ConfigError> {
    if text.len() > LONGEST {
        return Err(ConfigError::TooLarge);
    }
    if text.trim().is_empty() {
        return Ok(None);
    }
    serde_saphyr::from_str(text).map_err(|error| {
        let at = error.location();
        let problem = error.without_snippet().to_string();
        ConfigError::Yaml {
            line: at.map_or(0, |at| at.line()),
            column: at.map_or(0, |at| at.column()),
            problem,
        }
    })
}

fn action(name: &str, line: u64) -> Result<ActionName, ConfigError> {
    ActionName::parse(name).ok_or_else(|| ConfigError::Action { line, name: name.to_owned() })
}

/// Adds a plugin, or notes why it is left out.
fn add(config: &mut Config, plugin: Plugin, own: &[&str]) {
    let (line, name) = (plugin.name.referenced.line(), plugin.name.value);
    let note = |problem: String, remedy: &str| Note { line, problem, remedy: remedy.to_owned() };
    if !PLUGINS.contains(&name.as_str()) && !own.contains(&name.as_str()) {
        let problem = format!("there is no plugin `{name}`, so it is left out");
        config.notes.push(note(problem, "correct its name, or build it in"));
        return;
    }
    let arguments = plugin.arguments.unwrap_or_default();
    let arguments = arguments.into_iter().map(|(name, value)| (name, value.text())).collect();
    // Named twice, a plugin runs once, with what it was told last.
    match config.plugins.iter_mut().find(|known| known.name == name) {
        Some(known) => {
            known.arguments = arguments;
            let problem = format!("plugin `{name}` is named twice");
            config
                .notes
                .push(note(problem, "leave one of the two out: the arguments of the last count"));
        }
        None => config.plugins.push(PluginOption { name, arguments }),
    }
}

// === impl Scalar ===

impl Scalar {
    pub(super) fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Bool(value) => value.to_string(),
            Self::Whole(value) => value.to_string(),
            Self::Number(value) => value.to_string(),
            Self::Nothing(()) => String::new(),
        }
    }
}

fn known_actions() -> String {
    ActionName::ALL.map(ActionName::name).join(", ")
}
