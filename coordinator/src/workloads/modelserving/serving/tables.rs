//! What a ModelServing says of its rank tables, and what its pods say of their groups.

use muster_modelserving::api::ModelServing;
use muster_modelserving::ranktable::{Ranktables, Sizes};
use serde_json::json;

use super::Reconcile;
use crate::names;
use crate::ranktables::events::GENERATION_FAILED;
use crate::workloads::modelserving::sizes;
use crate::workloads::modelserving::table_mutator::{TableError, TableMutator};
use crate::workloads::modelserving::tables::{self, Table};
use muster_runtime::writer::WriteError;

// === impl Reconcile ===

impl Reconcile<'_> {
    /// Writes both, where they have changed. What one write cannot do does not keep the others from being done.
    pub(super) async fn report_tables(&mut self, mutator: &TableMutator) -> Result<(), WriteError> {
        let Some(serving) = self.read() else { return Ok(()) };
        let mut status = serving.status.clone().unwrap_or_default();
        let mut result = Ok(());
        let mut groups = Vec::new();
        self.warn_of_tables(mutator.error());
        let now = self.context.timestamp().strftime("%FT%TZ").to_string();
        let is_news = match mutator {
            TableMutator::Plain => tables::clear(&mut status.conditions),
            TableMutator::Error(error) => {
                tables::set(&mut status.conditions, Some(error), &[], &now)
            }
            TableMutator::Tables { tables: wanted, over, .. } => {
                for (pod, size) in self.outdated_sizes(wanted, &serving) {
                    let resized = self.resize(&pod, &size).await;
                    result = result.and(resized);
                }
                groups = self.rank_groups();
                tables::set(&mut status.conditions, over.as_ref(), &groups, &now)
            }
        };
        let shown = &mut self.state.status;
        shown.rank_groups = groups.len();
        shown.tables = groups.iter().filter(|table| table.is_there()).count();
        shown.trouble = tables::failure(&status.conditions).map(str::to_owned);
        if is_news {
            let status = serde_json::to_value(&status).unwrap_or_default();
            self.state.object = self.write_status(status).await?;
        }
        result
    }

    /// The rank groups of its pods, as their records say.
    fn rank_groups(&self) -> Vec<Table> {
        let table = |group: &String| {
            let records = &self.controller.caches.records;
            let record = records.named(&self.key.namespace, &names::record(group));
            Table { group: group.clone(), ready: record.and_then(|record| tables::read(&record)) }
        };
        self.state.observed.rank_groups().into_iter().map(table).collect()
    }

    /// The pods that say another size than their group has by now, with the right one.
    fn outdated_sizes(&self, wanted: &Ranktables, serving: &ModelServing) -> Vec<(String, String)> {
        if !wanted.sizes_change() {
            return Vec::new();
        }
        let api = self.controller.caches.pod_group_api();
        let seen = self.state.observed.seen(serving, self.key.shape, api);
        sizes::outdated(&Sizes::of(wanted, serving, &seen), self.state.observed.pods())
    }

    async fn resize(&self, pod: &str, size: &str) -> Result<(), WriteError> {
        let change = json!({"metadata": {"annotations": {names::RANK_GROUP_SIZE: size}}});
        // It is never closed.
        let _permit = self.controller.writes.acquire().await;
        match self.context.writer.merge(&self.pods(), pod, &change).await {
            Ok(_) => {
                self.controller.metrics.objects.wrote("mark", "Pod");
                Ok(())
            }
            Err(WriteError::Gone { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Records an event of what keeps it from its rank tables, once.
    fn warn_of_tables(&mut self, error: Option<&TableError>) {
        if self.state.table_error.as_ref() == error {
            return;
        }
        self.state.table_error = error.cloned();
        if let Some(error) = error {
            self.warn(GENERATION_FAILED, error.message.clone());
        }
    }
}
