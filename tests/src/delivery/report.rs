//! Figures beside their limits.

use std::time::Duration;

/// A limit counts as missed when it is missed by more than this: other work shares the cores.
const NOISE: f64 = 2.0;

/// What was missed.
#[derive(Debug, Default)]
pub struct Report {
    missed: Vec<String>,
    /// Missed, but not by more than noise.
    near: Vec<String>,
}

// === impl Report ===

impl Report {
    /// Prints a headline.
    pub fn part(&self, title: &str) {
        println!("\n{title}");
    }

    /// A figure without a limit.
    pub fn plain(&self, what: &str, figure: impl std::fmt::Display) {
        println!("  {what:<66} {figure:>12}");
    }

    /// A time without a limit.
    pub fn time(&self, what: &str, time: Duration) {
        self.plain(what, format!("{:.2} ms", millis(time)));
    }

    /// A figure with a limit that counts as it is: no noise is allowed for, so measure when nothing else runs.
    pub fn strict(&mut self, what: &str, figure: f64, limit: f64, unit: &str) {
        let met = figure <= limit;
        let verdict = if met { "met" } else { "MISSED" };
        self.plain(what, format!("{figure:.2} {unit}  limit {limit} {unit}: {verdict}"));
        if !met {
            self.missed.push(what.to_owned());
        }
    }

    /// A figure with a limit.
    pub fn limit(&mut self, what: &str, figure: f64, limit: f64, unit: &str) {
        let verdict = match () {
            () if figure <= limit => "met",
            () if figure <= limit * NOISE => "MISSED, within noise",
            () => "MISSED",
        };
        println!(
            "  {what:<66} {:>12}  limit {limit} {unit}: {verdict}",
            format!("{figure:.2} {unit}")
        );
        match verdict {
            "met" => {}
            "MISSED" => self.missed.push(what.to_owned()),
            _ => self.near.push(what.to_owned()),
        }
    }

    /// A count that must be zero.
    pub fn none(&mut self, what: &str, found: &[String]) {
        let verdict = if found.is_empty() { "met" } else { "MISSED" };
        println!("  {what:<66} {:>12}  limit 0: {verdict}", found.len());
        found.iter().take(5).for_each(|one| println!("    {one}"));
        if !found.is_empty() {
            self.missed.push(what.to_owned());
        }
    }

    /// Middle, nearly all, and last of sorted times.
    pub fn spread(&self, what: &str, times: &[Duration]) {
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| millis(at(times, share)));
        self.plain(what, format!("p50 {p50:.2}  p99 {p99:.2}  max {max:.2} ms"));
    }

    /// The last word; whether all limits are met, give or take noise.
    pub fn verdict(&self) -> bool {
        println!();
        if !self.near.is_empty() {
            println!("missed by less than a factor of {NOISE}: {}", self.near.join("; "));
        }
        match self.missed.is_empty() {
            true if self.near.is_empty() => println!("all limits are met"),
            true => println!("no limit is missed by more than noise"),
            false => println!("MISSED: {}", self.missed.join("; ")),
        }
        self.missed.is_empty()
    }
}

/// The time that this share of sorted times is within.
pub fn at(times: &[Duration], share: f64) -> Duration {
    let last = times.len().saturating_sub(1);
    times.get(((times.len() as f64 * share) as usize).min(last)).copied().unwrap_or_default()
}

/// A time in milliseconds.
pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
