//! `simulate`.

mod table;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use muster_scheduler::config::{self, Config};
use muster_scheduler::decisions::{Decisions, PodOutcome};
use muster_scheduler::input::{Document, Limits, load};
use muster_scheduler::plugin::proportion::division::reported;
use muster_scheduler::snapshot::build;
use muster_scheduler::{decide_and_tell, simulate as after};
use serde::Serialize;

use crate::args::{SimulateArgs, SimulateOutput};
use crate::{Failure, input, note};

/// How far apart cycles are.
const PERIOD: SignedDuration = SignedDuration::from_secs(1);

/// What came of a cycle.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cycle {
    #[serde(flatten)]
    decisions: Decisions,
    /// How far pods of groups are then.
    pods: BTreeMap<String, PodOutcome>,
    /// How long it took.
    cycle_ms: f64,
}

/// What came of several.
#[derive(Serialize)]
struct Cycles<'a> {
    cycles: &'a [Cycle],
}

pub(crate) fn simulate(args: &SimulateArgs, out: &mut dyn Write) -> Result<bool, Failure> {
    let unusable =
        |error: &dyn std::fmt::Display| Failure::Usage(format!("{}: {error}", args.file.display()));
    let limits = Limits::default();
    let bytes = bytes(&args.file, limits.bytes).map_err(|error| unusable(&error))?;
    let document = load(&bytes, limits).map_err(|error| unusable(&error))?;
    drop(bytes);
    let config = configuration(args.config.as_deref(), &args.file, &document)?;
    let Document { mut input, .. } = document;
    for bad in &input.set_aside {
        note(format_args!("set aside: {bad}"));
    }
    let mut now = now(args, input.now);
    let mut cycles = Vec::new();
    for at in 0..args.cycles {
        let begun = Instant::now();
        let snapshot = build(&input, &config.params, now);
        let (decisions, pods) = decide_and_tell(&snapshot, &config, now);
        let cycle_ms = begun.elapsed().as_secs_f64() * 1000.0;
        for bad in snapshot.left_out.iter().filter(|_| at == 0) {
            note(format_args!("left out: {}: {}", bad.object, bad.why));
        }
        now = now.saturating_add(PERIOD).unwrap_or(now);
        if at + 1 < args.cycles {
            after::apply(&mut input, &decisions, now);
        }
        cycles.push(Cycle { decisions: shown(decisions), pods, cycle_ms });
    }
    match args.output {
        SimulateOutput::Table => table::print(&cycles, out)?,
        SimulateOutput::Json => {
            let text = match cycles.as_slice() {
                [one] => serde_json::to_string_pretty(one),
                all => serde_json::to_string_pretty(&Cycles { cycles: all }),
            };
            writeln!(out, "{}", text.map_err(Failure::wrong)?)?;
        }
    }
    Ok(false)
}

/// Fair shares in the form in which KAI reports them.
fn shown(mut decisions: Decisions) -> Decisions {
    for share in decisions.fair_share.values_mut() {
        share.gpu = reported(share.gpu);
        share.kinds.values_mut().for_each(|devices| *devices = reported(*devices));
    }
    decisions
}

/// The file that was named, or what the document says itself.
pub(crate) fn configuration(
    named: Option<&Path>,
    file: &Path,
    document: &Document,
) -> Result<Config, Failure> {
    let own = Config::of_document(document, &[]);
    let Some(path) = named else {
        let wrong =
            |error: config::ConfigError| Failure::Wrong(format!("{}: {error}", file.display()));
        return with_notes(own.map_err(wrong)?);
    };
    let text = input::text(path)?;
    let wrong = |error: config::ConfigError| Failure::Wrong(format!("{}: {error}", path.display()));
    // A SchedulingShard is an object with a kind; KAI's file is neither.
    let is_shard =
        text.lines().any(|line| line.trim_start_matches(['{', ' ', '"']).starts_with("kind"));
    if is_shard {
        return with_notes(config::shard(&text, &[]).map_err(wrong)?);
    }
    let mut config = config::parse(&text, &[]).map_err(wrong)?;
    if let Ok(own) = own {
        config.params = own.params;
    }
    with_notes(config)
}

/// Prints which settings of a configuration are ignored.
fn with_notes(config: Config) -> Result<Config, Failure> {
    for ignored in &config.notes {
        note(ignored);
    }
    Ok(config)
}

fn now(args: &SimulateArgs, of_file: Option<Timestamp>) -> Timestamp {
    let given = args.now.as_deref().and_then(|text| text.parse().ok());
    given.or(of_file).unwrap_or_else(Timestamp::now)
}

/// At most a byte more than is allowed, so that what is too large is refused and not read to its end.
pub(crate) fn bytes(path: &Path, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    if path == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)?;
    } else {
        std::fs::File::open(path)?.take(most).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
