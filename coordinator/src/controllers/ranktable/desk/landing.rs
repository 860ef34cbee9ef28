//! What became of what was under way.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::time::Instant;

use super::super::flight::{Landed, Table};
use super::super::group::Failed;
use super::super::member::{GroupKey, Home};
use super::super::metrics::{MAKE, RECORD, Reason};
use super::super::record::{Content, Record};
use super::Desk;
use crate::events::reason as happened;
use crate::write::WriteError;

impl Desk {
    /// Notes what became of a flight. False if this coordinator does not lead any more.
    pub(super) fn land(&mut self, key: &GroupKey, landed: Landed) -> bool {
        let now = Timestamp::now();
        let metrics = self.outlets.metrics.clone();
        let Some(entry) = self.entries.get_mut(key) else { return true };
        entry.busy = false;
        let missed = std::mem::take(&mut entry.missed);
        entry.paused = None;
        self.marked.insert(key.clone());
        match landed {
            Landed::Recorded(record) => {
                entry.went_well();
                metrics.updates.inc();
                let created = entry.group.record.is_none();
                entry.recorded(Some(record), now);
                if created {
                    let name = crate::names::record(&key.name);
                    self.tell(
                        key,
                        false,
                        happened::CONFIG_MAP_CREATED,
                        format!("ConfigMap {name} is there, empty"),
                    );
                }
            }
            Landed::Published { record, composed, took, wrote } => {
                entry.went_well();
                metrics.updates.inc();
                metrics.generation.observe(took.as_secs_f64());
                metrics.took(MAKE, took);
                metrics.took(RECORD, wrote);
                entry.published = Some(Instant::now());
                let generation = record.generation;
                let lost = record.content == Content::None;
                let by_map =
                    entry.group.live().any(|member| matches!(member.home, Home::ConfigMap { .. }));
                let unread = by_map && !matches!(record.content, Content::Text(_));
                entry.recorded(Some(record), now);
                entry.group.failed = None;
                entry.table = Some(Table { generation, blob: composed.blob.clone() });
                entry.handed.clear();
                let note = format!(
                    "generation {generation}: {} servers, {} ranks, {} bytes, made in {:.1?}",
                    composed.servers,
                    composed.ranks,
                    composed.text.len(),
                    took
                );
                tracing::info!(group = %key, generation, ranks = composed.ranks, digest = %composed.digest(), "published");
                self.tell(key, false, happened::GENERATED, note);
                if lost || unread {
                    let size = composed.text.len();
                    let held = if lost {
                        "the ConfigMap holds its digest only"
                    } else {
                        "pods that mount the ConfigMap cannot read it"
                    };
                    let note = format!(
                        "the table has {size} bytes, a ConfigMap holds 1 MiB: {held}; use the delivery by agents"
                    );
                    self.tell(key, true, happened::TOO_LARGE, note);
                }
                self.check(key, composed.text);
            }
            Landed::Uncomposed { error, tried: (input, template) } => {
                metrics.errors.get_or_create(&Reason { reason: error.reason }).inc();
                entry.complete = None;
                let (reason, message) = (error.reason, error.message);
                entry.group.failed = Some(Failed { input, template, reason, message });
            }
            Landed::Loaded(table) => {
                entry.went_well();
                entry.handed.clear();
                entry.table = Some(table);
            }
            Landed::Lost => {
                // Nobody can say what it was: another generation takes its place.
                entry.back_off(Instant::now());
                if let Some(record) = &mut entry.group.record {
                    Arc::make_mut(record).input = None;
                }
            }
            Landed::Told(uids) => {
                let generation = entry.group.record.as_ref().map(|record| record.generation);
                if uids.is_empty() {
                    entry.back_off(Instant::now());
                }
                for uid in uids {
                    if let Some(member) = entry.group.members.get_mut(&uid)
                        && let Home::ConfigMap { told } = &mut member.home
                    {
                        *told = generation;
                    }
                }
            }
            Landed::Conditions { resource_version, conditions } => {
                entry.went_well();
                if let Some(record) = &mut entry.group.record {
                    let record: &mut Record = Arc::make_mut(record);
                    (record.resource_version, record.conditions) = (resource_version, conditions);
                }
            }
            Landed::Deleted => {
                // Pods may have come in the meantime.
                entry.recorded(None, now);
            }
            Landed::Died => {
                tracing::error!(group = %key, reason = "internal", "work for a group ended unexpectedly");
                metrics.errors.get_or_create(&Reason { reason: "internal" }).inc();
                entry.back_off(Instant::now());
            }
            Landed::Failed { error: WriteError::Deposed(deposed), .. } => {
                tracing::warn!("{deposed}");
                return false;
            }
            Landed::Failed { error, now: there } => {
                // A record that goes with its owner, or that another has made: nothing that somebody should mend.
                let nobodys_fault = matches!(
                    error,
                    WriteError::Conflict { .. }
                        | WriteError::Exists { .. }
                        | WriteError::Gone { .. }
                );
                if !nobodys_fault {
                    metrics.errors.get_or_create(&Reason { reason: error.reason() }).inc();
                    tracing::warn!(group = %key, reason = error.reason(), "{error}");
                }
                entry.back_off(Instant::now());
                // A quota, a policy: somebody must do something, and should not have to read our log for that.
                let text = error.to_string();
                let news = matches!(error, WriteError::Refused { .. })
                    && entry.said.failed.as_ref() != Some(&text);
                if news {
                    entry.said.failed = Some(text.clone());
                }
                if let Some(there) = there {
                    entry.recorded(there, now);
                }
                if news {
                    self.tell(key, true, happened::GENERATION_FAILED, text);
                }
            }
        }
        if missed {
            // Our own write most likely, and then nothing new; but somebody else may have been there, too.
            self.record(&key.namespace, &crate::names::record(&key.name));
        }
        true
    }
}
