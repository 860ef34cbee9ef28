//! A table is looked at as its reader will, while it is on its way. Pure.

use std::sync::Arc;

use muster_ranktable::{Facts, Severity, check};

use super::group::RankGroup;

/// A table beyond this is not checked while it runs: `musterctl ranktable check` does that.
const CHECKED: usize = 4 * 1024 * 1024;

/// A table that is to be checked.
#[derive(Debug)]
pub struct TableCheck {
    text: Arc<str>,
    facts: Facts,
}

// === impl TableCheck ===

impl TableCheck {
    /// Of a group's table; none if it is too large, or in nobody's format.
    pub fn of(group: &RankGroup, text: Arc<str>) -> Option<Self> {
        if text.len() > CHECKED || !text.trim_start().starts_with('{') {
            return None;
        }
        let pods = group.live().map(|member| &member.pod);
        let own = pods.filter(|pod| pod.pod_ip != pod.host_ip && !pod.pod_ip.is_empty());
        let pod_ips = own.map(|pod| pod.pod_ip.clone()).collect();
        Some(Self { text, facts: Facts { pod_ips, ..Facts::default() } })
    }

    /// What the reader will not like. Takes milliseconds per megabyte.
    pub fn run(&self) -> Option<String> {
        let findings = check(&self.text, &self.facts);
        let mut errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
        let first = errors.next()?;
        Some(format!(
            "the table has {} mistakes that its reader may refuse; the first: {}; {}",
            1 + errors.count(),
            first.message,
            first.remedy
        ))
    }
}
