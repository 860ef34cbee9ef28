//! The programs' own figures, read as a scraper reads them.

use std::collections::BTreeMap;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// Every sample, by name and labels.
#[derive(Clone, Debug, Default)]
pub struct Figures(BTreeMap<String, f64>);

// === impl Figures ===

impl Figures {
    /// All of a registry now.
    pub fn of(registry: &Registry) -> Self {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _written = encode(&mut text, registry);
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Self(text.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect())
    }

    /// Adds the figures of several agents.
    pub fn sum(all: impl Iterator<Item = Self>) -> Self {
        let mut sum = Self::default();
        for (name, value) in all.flat_map(|one| one.0) {
            *sum.0.entry(name).or_default() += value;
        }
        sum
    }

    /// What came since then.
    pub fn since(mut self, before: &Self) -> Self {
        for (name, value) in &mut self.0 {
            *value -= before.get(name);
        }
        self
    }

    /// One sample; 0 where there is none.
    pub fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// The least bound of a histogram's buckets that this share of its samples is within, in seconds.
    pub fn within(&self, histogram: &str, share: f64) -> f64 {
        let start = format!("{histogram}_bucket{{le=\"");
        let mut buckets: Vec<(f64, f64)> = self
            .0
            .iter()
            .filter_map(|(name, count)| {
                let bound = name.strip_prefix(&start)?.strip_suffix("\"}")?;
                Some((bound.replace("+Inf", "inf").parse().ok()?, *count))
            })
            .collect();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let enough = self.get(&format!("{histogram}_count")) * share;
        buckets
            .iter()
            .find(|(_, count)| *count >= enough)
            .map_or(f64::INFINITY, |(bound, _)| *bound)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::histogram::Histogram;

    use super::*;

    #[test]
    fn what_a_registry_shows_is_read_added_and_taken_off() {
        let histogram = Histogram::new([1.0, 2.0]);
        let mut registry = Registry::default();
        registry.register("h", "help", histogram.clone());
        histogram.observe(0.5);
        let before = Figures::of(&registry);
        histogram.observe(1.5);
        histogram.observe(1.5);
        let after = Figures::of(&registry).since(&before);
        assert_eq!((after.get("h_count"), after.get("h_sum")), (2.0, 3.0));
        assert_eq!((after.within("h", 0.99), before.within("h", 0.5)), (2.0, 1.0));
        assert_eq!(Figures::sum([before, after].into_iter()).get("h_count"), 3.0);
    }
}
