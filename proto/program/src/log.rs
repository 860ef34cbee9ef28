//! Logging, with a level that can be changed while the program runs.

use std::io::IsTerminal;

use anyhow::Context;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt};

/// The level in force.
#[derive(Clone, Debug)]
pub struct LogLevel {
    handle: Option<reload::Handle<EnvFilter, Registry>>,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// JSON, or text on a terminal.
    #[default]
    Auto,
    /// One JSON object per line.
    Json,
    /// For people.
    Text,
}

// === impl LogLevel ===

impl LogLevel {
    /// Starts logging to stderr.
    pub fn start(filter: &str, format: LogFormat) -> anyhow::Result<Self> {
        let (layer, handle) = reload::Layer::new(parse(filter)?);
        let json = match format {
            LogFormat::Auto => !std::io::stderr().is_terminal(),
            LogFormat::Json => true,
            LogFormat::Text => false,
        };
        let registry = tracing_subscriber::registry().with(layer);
        let lines = fmt::layer().with_writer(std::io::stderr);
        match json {
            true => registry.with(lines.json().flatten_event(true)).try_init(),
            false => registry
                .with(lines.with_target(false).with_ansi(std::io::stderr().is_terminal()))
                .try_init(),
        }
        .context("logging")?;
        Ok(Self { handle: Some(handle) })
    }

    /// Inside another program, which logs itself: nothing can be changed.
    pub fn fixed() -> Self {
        Self { handle: None }
    }

    /// The filter in force, as it was given.
    pub fn get(&self) -> String {
        let read = |handle: &reload::Handle<EnvFilter, Registry>| {
            let text = handle.with_current(ToString::to_string).unwrap_or_default();
            let given: Vec<&str> = text.split(',').filter(|part| *part != QUIET).collect();
            given.join(",")
        };
        let fixed = || "set by the program that this is part of".to_owned();
        self.handle.as_ref().map_or_else(fixed, read)
    }

    /// Replaces the filter; an invalid one changes nothing.
    pub fn set(&self, filter: &str) -> anyhow::Result<()> {
        let filter = parse(filter)?;
        let handle = self.handle.as_ref().context("this program does not log by itself")?;
        handle.reload(filter).context("logging")
    }
}

/// It logs every request that fails, without saying why, at every try. Who looks for more sees it.
const QUIET: &str = "kube_client::client::builder=off";

fn parse(filter: &str) -> anyhow::Result<EnvFilter> {
    let what =
        || format!("{filter:?} is no log level: try info, debug or muster_agent::link=debug,info");
    // A bare word that is no level would be taken for the name of a module, and silence all others.
    let level = |part: &str| part.contains('=') || part.trim().parse::<LevelFilter>().is_ok();
    anyhow::ensure!(filter.split(',').all(level), what());
    let parsed = EnvFilter::try_new(filter).map_err(|_| anyhow::anyhow!(what()))?;
    match ["kube_client", "debug", "trace"].iter().any(|word| filter.contains(word)) {
        true => Ok(parsed),
        false => Ok(parsed.add_directive(QUIET.parse()?)),
    }
}
