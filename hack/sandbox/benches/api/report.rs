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
pub struct Samples(Vec<(u64, Duration)>);

/// All that was measured. What a filter left out has no samples and is not printed.
#[derive(Debug, Default)]
pub struct Report {
    /// Parse, serialise, insert.
    pub floor: Samples,
    /// A copy of the list's bytes.
    pub copy: Samples,
    /// Writes: which way, whether with watchers.
    pub writes: Vec<(Way, bool, Samples)>,
    /// Lists.
    pub lists: Vec<(Way, Samples)>,
    /// Applies.
    pub applies: Vec<(Way, Samples)>,
}

// === impl Samples ===

impl Samples {
    /// Adds one: so many iterations took so long.
    pub fn add(&mut self, times: u64, time: Duration) {
        self.0.push((times, time));
    }

    /// Time per iteration over the later half of the samples: the first ones warm up.
    fn each(&self) -> Option<Duration> {
        let later = self.0.get(self.0.len() / 2..)?;
        let times: u64 = later.iter().map(|(times, _)| times).sum();
        let time: Duration = later.iter().map(|(_, time)| time).sum();
        (times > 0).then(|| Duration::from_secs_f64(time.as_secs_f64() / times as f64))
    }

    fn per_second(&self) -> Option<f64> {
        self.each().map(|each| 1.0 / each.as_secs_f64())
    }
}

// === impl Report ===

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let floor = self.floor.per_second();
        if let Some(floor) = floor {
            writeln!(
                f,
                "floor: {floor:.0} writes/s that only parse the pod, serialise it and put it into a map"
            )?;
        }
        for (way, watched, samples) in &self.writes {
            let Some(rate) = samples.per_second() else { continue };
            let watchers = if *watched { NODES } else { 0 };
            write!(f, "writes, {way}, {watchers} watchers: {rate:.0}/s")?;
            if let Some(floor) = floor {
                write!(f, ", one write costs {:.1} times the floor", floor / rate)?;
            }
            let met = if rate >= WANTED_WRITES { "met" } else { "missed" };
            writeln!(f, " (wanted {WANTED_WRITES:.0}/s: {met})")?;
        }
        for (way, samples) in &self.lists {
            let Some(time) = samples.each() else { continue };
            write!(f, "list of {PODS} pods, {way}: {:.1} ms", time.as_secs_f64() * 1e3)?;
            if let Some(copy) = self.copy.each() {
                write!(
                    f,
                    ", {:.1} times a copy of the same bytes ({:.1} ms)",
                    time.as_secs_f64() / copy.as_secs_f64(),
                    copy.as_secs_f64() * 1e3
                )?;
            }
            let met = if time < WANTED_LIST { "met" } else { "missed" };
            writeln!(f, " (wanted under {} ms: {met})", WANTED_LIST.as_millis())?;
        }
        for (way, samples) in &self.applies {
            let Some(rate) = samples.per_second() else { continue };
            let time = 1e6 / rate;
            write!(f, "server-side apply of a pod, {way}, one after the other: {time:.0} µs")?;
            match floor {
                Some(floor) => writeln!(f, ", {:.1} times the floor", floor / rate)?,
                None => writeln!(f)?,
            }
        }
        Ok(())
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
