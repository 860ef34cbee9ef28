//! The scheduler's configuration, in KAI's format: actions, tiers of plugins with arguments, depths, budgets, and
//! what KAI takes on its command line.

mod budgets;
mod cron;
mod names;
mod params;
mod parse;
mod shard;
mod usage;

use std::{collections::BTreeMap, fmt};

pub use self::{
    budgets::SearchBudgets,
    cron::Cron,
    names::{ActionName, PLUGINS, plugin},
    params::{NodePool, Params},
    parse::{ConfigError, parse},
    shard::shard,
    usage::{Connection, Metrics, UsageDb, Window, is_name},
};

use crate::input::Document;

/// What the scheduler does, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Actions, in order.
    pub actions: Vec<ActionName>,
    /// Plugins, in order. Tiers are flattened: they have no meaning of their own.
    pub plugins: Vec<PluginOption>,
    /// How many jobs of one queue an action tries; all if it is not said.
    pub queue_depth: BTreeMap<ActionName, usize>,
    /// How long the search for victims may take.
    pub budgets: SearchBudgets,
    /// What KAI takes on its command line.
    pub params: Params,
    /// Where past use of queues is asked for, if it counts.
    pub usage: Option<UsageDb>,
    /// What was left out of the configuration, and why.
    pub notes: Vec<Note>,
}

/// A plugin and what it is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginOption {
    /// The plugin's name.
    pub name: String,
    /// The plugin's arguments.
    pub arguments: BTreeMap<String, String>,
}

/// Something in a configuration that is not obeyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The line it is on; 0 if that is not known.
    pub line: u64,
    /// What is wrong.
    pub problem: String,
    /// What to change in the configuration.
    pub remedy: String,
}

// === impl Config ===

impl Config {
    /// The configuration and command line that a document holds, with KAI's defaults for what it does not say.
    pub fn of_document(document: &Document, own: &[&str]) -> Result<Self, ConfigError> {
        let mut config = match &document.config {
            Some(written) => parse(written.get(), own)?,
            None => Self::default(),
        };
        if let Some(written) = &document.scheduler_params {
            config.params = Params::parse(written.get())?;
        }
        Ok(config)
    }

    /// The arguments of a plugin; none if it is not configured.
    pub fn arguments(&self, name: &str) -> Option<&BTreeMap<String, String>> {
        self.plugins.iter().find(|plugin| plugin.name == name).map(|plugin| &plugin.arguments)
    }

    /// Whether a plugin is configured.
    pub fn has(&self, name: &str) -> bool {
        self.arguments(name).is_some()
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            actions: ActionName::ALL.to_vec(),
            plugins: names::default_plugins(),
            queue_depth: BTreeMap::new(),
            budgets: SearchBudgets::default(),
            params: Params::default(),
            usage: None,
            notes: Vec::new(),
        }
    }
}

// === impl PluginOption ===

impl PluginOption {
    /// A plugin without arguments.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), arguments: BTreeMap::new() }
    }

    /// With one more argument.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.arguments.insert(name.to_owned(), value.to_owned());
        self
    }
}

// === impl Note ===

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        write!(f, "{}; {}", self.problem, self.remedy)
    }
}
