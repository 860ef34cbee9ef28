//! What is said about a group: once, when it changes.

use std::sync::Arc;

use muster_ranktable::{Facts, Severity, check};

use super::super::delivery::Standing;
use super::super::group::Outlook;
use super::super::member::GroupKey;
use super::super::metrics::Reason;
use super::super::shown::GroupStatus;
use super::Desk;
use crate::conditions::{Condition, reason};
use crate::events::reason as happened;

/// A table beyond this is not checked while it runs: `musterctl ranktable check` does that.
const CHECKED: usize = 4 * 1024 * 1024;

impl Desk {
    /// Shows how a group stands, and says what is new.
    pub(super) fn say(
        &mut self,
        key: &GroupKey,
        outlook: &Outlook,
        standing: Option<&Standing>,
        late: bool,
        conditions: Vec<Condition>,
    ) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        // What others have said of the record was looked at when it was read first.
        entry.looked = true;
        let mut said = entry.said.clone();
        let mut notes: Vec<(bool, &str, String)> = Vec::new();
        if outlook.verdict.ready {
            (said.missing, said.failed) = (false, None);
        }
        if !outlook.missing.is_empty() && !said.missing {
            said.missing = true;
            notes.push((true, happened::ANNOTATION_MISSING, outlook.verdict.message.clone()));
        }
        // How many are missing changes; that they are missing for too long is said once.
        let failed = match outlook.verdict.reason {
            reason::TIMEOUT => reason::TIMEOUT,
            _ => outlook.verdict.message.as_str(),
        };
        if outlook.has_failed() && said.failed.as_deref() != Some(failed) {
            said.failed = Some(failed.to_owned());
            let word = match outlook.verdict.reason {
                reason::TIMEOUT => Some("timeout"),
                reason::TEMPLATE_INVALID => Some("template-invalid"),
                reason::INVALID_MARKS => Some("invalid-marks"),
                reason::NAME_TAKEN => Some("name-taken"),
                // Counted when it happened.
                _ => None,
            };
            if let Some(reason) = word {
                self.outlets.metrics.errors.get_or_create(&Reason { reason }).inc();
            }
            let note = format!("{}: {}", outlook.verdict.reason, outlook.verdict.message);
            notes.push((true, happened::GENERATION_FAILED, note));
        }
        if let Some(standing) = standing {
            let generation = standing.generation;
            if standing.is_complete() && said.delivered < generation && outlook.verdict.ready {
                said.delivered = generation;
                let took = entry.complete.take().map(|since| since.elapsed());
                if let Some(took) = took {
                    self.outlets.metrics.delivery.observe(took.as_secs_f64());
                }
                let took = took
                    .map(|took| format!(", {took:.1?} after its input was complete"))
                    .unwrap_or_default();
                let note = format!("{}{took}", standing.message(false));
                notes.push((false, happened::DELIVERED, note));
            } else if !standing.is_complete() && late && said.late < generation {
                said.late = generation;
                notes.push((true, happened::LATE, standing.message(true)));
            }
        }
        entry.said = said;
        let verdict = &outlook.verdict;
        let (delivered, receivers) =
            standing.map_or((0, 0), |standing| (standing.there, standing.all));
        let status = GroupStatus {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            pods: entry.group.live().count(),
            generation: entry.group.record.as_ref().map_or(0, |record| record.generation),
            delivered,
            receivers,
            ready: verdict.ready,
            reason: verdict.reason.to_owned(),
            message: verdict.message.clone(),
            conditions,
        };
        self.outlets.shown.set(key, Some(status));
        for (warning, reason, note) in notes {
            self.tell(key, warning, reason, note);
        }
    }

    /// Writes an event about the group's owner.
    pub(super) fn tell(&self, key: &GroupKey, warning: bool, reason: &str, note: String) {
        let Some(entry) = self.entries.get(key) else { return };
        let about = entry.group.subject(entry.group.record.as_deref());
        let (events, reason) = (self.outlets.events.clone(), reason.to_owned());
        let note = format!("rank group {}: {note}", key.name);
        tokio::spawn(async move {
            match warning {
                true => events.warning(&about, &reason, note).await,
                false => events.normal(&about, &reason, note).await,
            }
        });
    }

    /// Looks at a table as its reader will, and says what it will not like. The table is on its way already.
    pub(super) fn check(&self, key: &GroupKey, text: Arc<str>) {
        let Some(entry) = self.entries.get(key) else { return };
        if text.len() > CHECKED || !text.trim_start().starts_with('{') {
            return;
        }
        let addresses =
            entry.group.live().map(|member| &member.pod).filter(|pod| pod.pod_ip != pod.host_ip);
        let pod_ips = addresses.map(|pod| pod.pod_ip.clone()).filter(|ip| !ip.is_empty()).collect();
        let facts = Facts { pod_ips, ..Facts::default() };
        let about = entry.group.subject(entry.group.record.as_deref());
        let (events, group) = (self.outlets.events.clone(), key.clone());
        tokio::spawn(async move {
            let checked = tokio::task::spawn_blocking(move || check(&text, &facts)).await;
            let Ok(findings) = checked else { return };
            let errors: Vec<_> =
                findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
            if let Some(first) = errors.first() {
                let note = format!(
                    "rank group {}: the table has {} mistakes that its reader may refuse; the first: {}; {}",
                    group.name,
                    errors.len(),
                    first.message,
                    first.remedy
                );
                events.warning(&about, happened::DOUBTFUL, note).await;
            }
        });
    }
}
