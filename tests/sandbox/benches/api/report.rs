//! The figures in plain words.

use std::fmt;
use std::time::Duration;

use crate::door::Way;
use crate::pods::{NODES, PODS};

/// Writes per second that the project asks for, with all watchers.
const WANTED_WRITES: f64 = 5_000.0;
/// How long a list of all pods may take.
const WANTED_LIST: Duration = Duration::from_millis(150);

/// The times of one measurement.
#[derive(Debug, Default)]
pub struct Samples(Vec<Sample>);

/// So many iterations took so long, and so much of the processors.
#[derive(Debug, Clone, Copy)]
struct Sample {
    times: u64,
    time: Duration,
    cpu: Duration,
}

/// How long this process has kept the processors busy, clients included. On a machine that others use
/// too this says more than the clock.
pub fn cpu_time() -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name in brackets may hold anything; of the fields after it, 12 and 13 are user and system time.
    let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
    let ticks: Vec<u64> =
        fields.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(Duration::from_millis(ticks.iter().sum::<u64>() * 10))
}

/// All that was measured. What a filter left out has no samples and is not printed.
#[derive(Debug, Default)]
pub struct Report {
    /// Parse, serialise, insert.
    pub floor: Samples,
    /// A copy of the list's bytes.
    pub copy: Samples,
    /// Writes: which way, whether with watchers.
    pub writes: Vec<(Way, bool, Samples)>,
    pub lists: Vec<(Way, Samples)>,
    pub applies: Vec<(Way, Samples)>,
}

// === impl Samples ===

impl Samples {
    /// Adds one: so many iterations took so long.
    pub fn add(&mut self, times: u64, time: Duration, cpu: Duration) {
        self.0.push(Sample { times, time, cpu });
    }

    /// Time per iteration.
    fn each(&self) -> Option<Duration> {
        self.average(|sample| sample.time)
    }

    /// Processor time per iteration.
    fn cpu(&self) -> Option<Duration> {
        self.average(|sample| sample.cpu)
    }

    /// Over the later half of the samples: the first ones warm up.
    fn average(&self, of: fn(&Sample) -> Duration) -> Option<Duration> {
        let later = self.0.get(self.0.len() / 2..)?;
        let times: u64 = later.iter().map(|sample| sample.times).sum();
        let total: Duration = later.iter().map(of).sum();
        (times > 0).then(|| Duration::from_secs_f64(total.as_secs_f64() / times as f64))
    }

    fn per_second(&self) -> Option<f64> {
        self.each().map(|each| 1.0 / each.as_secs_f64())
    }
}

// === impl Report ===

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let floor = self.floor.cpu();
        if let (Some(rate), Some(cpu)) = (self.floor.per_second(), floor) {
            writeln!(
                f,
                "floor: {rate:.0} writes/s that only parse the pod, serialise it and put it into a map; \
                 one takes {} µs of a core",
                cpu.as_micros()
            )?;
        }
        for (way, watched, samples) in &self.writes {
            let Some(rate) = samples.per_second() else { continue };
            let watchers = if *watched { NODES } else { 0 };
            let met = if rate >= WANTED_WRITES { "met" } else { "missed" };
            write!(f, "writes, {way}, {watchers} watchers: {rate:.0}/s")?;
            write!(f, " (wanted {WANTED_WRITES:.0}/s: {met})")?;
            cost(f, samples, floor)?;
        }
        for (way, samples) in &self.lists {
            let Some(time) = samples.each() else { continue };
            let met = if time < WANTED_LIST { "met" } else { "missed" };
            write!(f, "list of {PODS} pods, {way}: {:.1} ms", time.as_secs_f64() * 1e3)?;
            write!(f, " (wanted under {} ms: {met})", WANTED_LIST.as_millis())?;
            match self.copy.each() {
                Some(copy) => writeln!(
                    f,
                    ", {:.1} times a copy of the same bytes ({:.1} ms)",
                    time.as_secs_f64() / copy.as_secs_f64(),
                    copy.as_secs_f64() * 1e3
                )?,
                None => writeln!(f)?,
            }
        }
        for (way, samples) in &self.applies {
            let Some(time) = samples.each() else { continue };
            write!(f, "server-side apply of a pod, {way}: {} µs", time.as_micros())?;
            cost(f, samples, floor)?;
        }
        Ok(())
    }
}

/// What one write costs, alone and against the floor.
fn cost(f: &mut fmt::Formatter<'_>, samples: &Samples, floor: Option<Duration>) -> fmt::Result {
    let Some(cpu) = samples.cpu() else { return writeln!(f) };
    write!(f, "; one takes {} µs of a core", cpu.as_micros())?;
    match floor.map(|floor| floor.as_secs_f64()).filter(|floor| *floor > 0.0) {
        Some(floor) => writeln!(f, ", {:.1} times the floor", cpu.as_secs_f64() / floor),
        None => writeln!(f),
    }
}

// === impl Way ===

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "in process",
            Self::Http => "over HTTP",
        })
    }
}
