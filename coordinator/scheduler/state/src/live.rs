//! Which configuration is in force: that of the `SchedulingShard` that is served, or, as long as there is none, that of the
//! flags; and what the object `kai-config` switches on and off.
//!
//! ```text
//!   --scheduler-config ─────────┐
//!   SchedulingShard (served) ───┼──▶ resolve ──▶ in force: configuration, whether pods are placed, whether they are grouped
//!   Config kai-config ──────────┘           └──▶ conditions of each object
//! ```
//!
//! A shard that cannot be used changes nothing: the last one that could stays in force, and the shard's condition says why.

mod condition;
mod contest;
mod switches;

use std::fmt;

use muster_scheduler::config::{self, Config, ConfigError, Connection};
use serde_json::{Value, json};

pub use condition::{Condition, merge, reason};
pub use contest::{Contest, Turn};
pub use switches::{Admission, Switches};

/// The name of the one `Config` that is read.
pub const CONFIG_NAME: &str = "kai-config";
/// The shard that is served if no other is named.
pub const DEFAULT_SHARD: &str = "default";
/// The flag that names another.
pub const SHARD_FLAG: &str = "--scheduler-shard";

/// An object as the API server has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// Its name.
    pub name: String,
    /// The generation of its spec.
    pub generation: i64,
    /// Its spec.
    pub spec: Value,
}

/// Where a configuration is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// KAI's defaults: nobody has said anything.
    Defaults,
    /// The file that a flag names.
    File(String),
    /// A shard, at a generation.
    Shard(String, i64),
}

/// What is obeyed.
#[derive(Clone, Debug, PartialEq)]
pub struct InForce {
    /// Actions, plugins and parameters.
    pub config: Config,
    /// Where they are from.
    pub source: Source,
    /// What is switched on and off.
    pub switches: Switches,
    /// Why the shard's newest spec is not the one in force.
    pub problem: Option<String>,
    /// What `kai-config` says and is not obeyed.
    pub ignored: Option<String>,
}

/// Resolves objects, and remembers the last shard that could be used.
#[derive(Clone, Debug)]
pub struct Live {
    base: Config,
    source: Source,
    shard: String,
    /// Whose pods are scheduled.
    schedulers: Vec<String>,
    last: Option<(i64, Config)>,
}

/// What comes of all objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// What is obeyed.
    pub in_force: InForce,
    /// Conditions of shards, by name.
    pub shards: Vec<(String, Vec<Condition>)>,
    /// Conditions of `kai-config`.
    pub config: Option<Vec<Condition>>,
}

// === impl Live ===

impl Live {
    /// With what the flags say, and the name of the shard that is served; empty: none is.
    pub fn new(base: Config, source: Source, shard: &str) -> Self {
        let schedulers = vec![base.params.scheduler_name.clone()];
        Self { base, source, shard: shard.to_owned(), schedulers, last: None }
    }

    /// Schedules pods that name one of these.
    #[must_use]
    pub fn for_schedulers(mut self, names: Vec<String>) -> Self {
        self.schedulers = names;
        self
    }

    /// What is in force with these objects. `missing` says what the configuration needs and does not get.
    pub fn resolve(
        &mut self,
        shards: &[Written],
        kai: Option<&Written>,
        missing: Option<&str>,
    ) -> Resolved {
        let nothing = Value::Null;
        let switches = Switches::read(kai.map_or(&nothing, |kai| &kai.spec));
        let served = shards.iter().find(|shard| shard.name == self.shard);
        let mut problem = None;
        match served {
            None => self.last = None,
            Some(shard) => match self.read(shard, &switches) {
                Ok(config) => self.last = Some((shard.generation, config)),
                Err(error) => problem = Some(said(&error)),
            },
        }
        let (config, source) = match &self.last {
            Some((generation, config)) => {
                (config.clone(), Source::Shard(self.shard.clone(), *generation))
            }
            None => (self.base.clone(), self.source.clone()),
        };
        let problems = switches.problems(&self.schedulers);
        let ignored = (!problems.is_empty()).then(|| problems.join("; "));
        let in_force = InForce { config, source, switches, problem, ignored };
        let conditions = |shard: &Written| {
            let all = match shard.name == self.shard {
                true => condition::of_served(shard, &in_force, missing),
                false => condition::of_unserved(shard, &self.shard),
            };
            (shard.name.clone(), all)
        };
        Resolved {
            shards: shards.iter().map(conditions).collect(),
            config: kai.map(|kai| condition::of_config(kai, &in_force)),
            in_force,
        }
    }

    /// The configuration of a shard. What is fixed when the coordinator starts stays as it is.
    fn read(&self, shard: &Written, switches: &Switches) -> Result<Config, ConfigError> {
        let text = json!({ "spec": shard.spec }).to_string();
        let mut config = config::shard(&text, &[])?;
        if let Some(usage) = config.usage.as_mut().filter(|usage| usage.at == Connection::Elsewhere)
        {
            let Some(url) = &switches.prometheus else {
                let field = "spec.usageDBConfig.connectionString".to_owned();
                let problem =
                    "neither it nor kai-config says where Prometheus is: set it".to_owned();
                return Err(ConfigError::Value { line: 0, field, problem });
            };
            usage.at = Connection::Url(url.clone());
            // Credentials are for the server that they were written beside, and no other.
            let secret = switches.prometheus_secret.clone().filter(|name| config::is_name(name));
            usage.auth_secret = usage.auth_secret.take().or(secret);
        }
        let params = &mut config.params;
        let fixed = &self.base.params;
        if let Some(key) = &switches.node_pool_label
            && shard.spec.pointer("/args/nodepool-label-key").is_none()
        {
            params.node_pool.key.clone_from(key);
        }
        params.scheduler_name.clone_from(&fixed.scheduler_name);
        params.groups_by_namespace = fixed.groups_by_namespace;
        // Pods that hold devices carry it already.
        params.resource_reservation_app_label.clone_from(&fixed.resource_reservation_app_label);
        Ok(config)
    }
}

// === impl Source ===

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Defaults => write!(f, "defaults"),
            Self::File(path) => write!(f, "--scheduler-config {path}"),
            Self::Shard(name, generation) => {
                write!(f, "SchedulingShard {name}, generation {generation}")
            }
        }
    }
}

// === impl InForce ===

impl InForce {
    /// What counts before anything is read: the flags.
    pub fn of_flags(config: Config, source: Source) -> Self {
        Self { config, source, switches: Switches::default(), problem: None, ignored: None }
    }
}

/// What is wrong: field, and what helps. An object has no lines.
fn said(error: &ConfigError) -> String {
    match error {
        ConfigError::Value { field, problem, .. } => format!("{field}: {problem}"),
        ConfigError::Action { .. } => {
            let text = error.to_string();
            let told = text.split_once(": ").map_or(text.as_str(), |(_, told)| told);
            format!("spec.actions or spec.queueDepthPerAction: {told}")
        }
        ConfigError::Yaml { problem, .. } => format!("spec: {problem}: correct the field's type"),
        ConfigError::TooLarge | ConfigError::Params { .. } => format!("spec: {error}"),
    }
}

#[cfg(test)]
mod tests;
