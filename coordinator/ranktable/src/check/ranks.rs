//! Ranks: every number from 0 once.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::{Report, Spot};
use crate::order::is_decimal;

/// The ranks that have been seen.
#[derive(Default)]
pub(super) struct Ranks {
    seen: HashMap<u64, Spot>,
    count: usize,
    unreadable: bool,
}

// === impl Ranks ===

impl Ranks {
    /// A rank as text.
    pub(super) fn text(&mut self, device: &Json, spot: &Spot, report: &mut Report) {
        self.count += 1;
        match device.get("rank_id") {
            None => {
                self.unreadable = true;
                report.error(
                    "rank_id_missing",
                    spot.clone(),
                    "the device has no rank_id",
                    "add it to the template",
                );
            }
            Some(Json::String(rank)) if is_decimal(rank) && rank.len() < 10 => {
                self.note(rank.parse().unwrap_or(u64::MAX), spot, report);
            }
            // That it is no text is said where all values are looked at.
            Some(Json::Number(rank)) if rank.is_u64() => {
                self.note(rank.as_u64().unwrap_or(u64::MAX), spot, report);
            }
            Some(rank) => {
                self.unreadable = true;
                report.error(
                    "rank_id_not_decimal",
                    spot.clone(),
                    format!("rank_id {rank} is no number from 0"),
                    "write ranks as \"0\", \"1\", …",
                );
            }
        }
    }

    /// A rank as an integer.
    pub(super) fn integer(&mut self, entry: &Json, spot: &Spot, report: &mut Report) {
        self.count += 1;
        match entry["rank_id"].as_u64() {
            Some(rank) => self.note(rank, spot, report),
            None => self.unreadable = true,
        }
    }

    fn note(&mut self, rank: u64, spot: &Spot, report: &mut Report) {
        if let Some(first) = self.seen.insert(rank, spot.clone()) {
            report.error(
                "rank_id_duplicate",
                spot.clone(),
                format!("rank {rank} is given twice, first to {first}"),
                "give every device a rank of its own",
            );
        }
    }

    /// Looks for gaps when all ranks are known. Those that cannot be read have been reported.
    pub(super) fn finish(self, report: &mut Report) {
        if self.unreadable || self.seen.len() < self.count {
            return;
        }
        let missing = (0..self.count as u64).find(|rank| !self.seen.contains_key(rank));
        let Some(missing) = missing else { return };
        let highest = self.seen.iter().max_by_key(|(rank, _)| **rank);
        let spot = highest.map(|(_, spot)| spot.clone()).unwrap_or_default();
        report.error(
            "rank_id_not_contiguous",
            spot,
            format!(
                "rank {missing} is missing: {} devices need the ranks 0 to {}",
                self.count,
                self.count - 1
            ),
            "number the devices from 0 without gaps",
        );
    }
}
