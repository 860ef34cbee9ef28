//! What a ModelServing says of its rank tables, and what its pods say of their groups.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use muster_modelserving::ranktable::Sizes;
use serde_json::json;

use super::Keeper;
use crate::controllers::modelserving::adorn::{Dress, Trouble};
use crate::controllers::modelserving::tables::{self, Table};
use crate::controllers::modelserving::{metrics, sizes};
use crate::events::reason::GENERATION_FAILED;
use crate::names;
use crate::write::WriteError;

// === impl Keeper ===

impl Keeper {
    /// Writes both, where they have changed. What one write cannot do does not keep the others from being done.
    pub(super) async fn tables(&mut self, dress: &Dress) -> Result<(), WriteError> {
        let Some(serving) = self.serving() else { return Ok(()) };
        let mut status = serving.status.clone().unwrap_or_default();
        let mut result = Ok(());
        (self.shown.rank_groups, self.shown.tables) = (0, 0);
        let now = Timestamp::now().strftime("%FT%TZ").to_string();
        let news = match dress {
            Dress::Plain => {
                self.said = None;
                tables::clear(&mut status.conditions)
            }
            Dress::Trouble(trouble) => {
                self.troubled(trouble);
                tables::set(&mut status.conditions, Some(trouble), &[], &now)
            }
            Dress::Tables { tables: wanted, over, .. } => {
                match over {
                    Some(over) => self.troubled(over),
                    None => self.said = None,
                }
                let outdated = match wanted.sizes_change() {
                    true => {
                        let api = self.sources.pod_group_api();
                        let seen = self.known.seen(&serving, self.key.shape, api);
                        let sizes = Sizes::of(wanted, &serving, &seen);
                        sizes::outdated(&sizes, self.known.pods())
                    }
                    false => Vec::new(),
                };
                for (pod, size) in outdated {
                    let resized = self.resize(&pod, &size).await;
                    result = result.and(resized);
                }
                let groups = self.known.rank_groups();
                let table = |group: &&String| Table {
                    group: (*group).clone(),
                    ready: self
                        .sources
                        .records
                        .named(&self.key.namespace, &names::record(group))
                        .and_then(|map| tables::read(&map)),
                };
                let all: Vec<Table> = groups.iter().map(table).collect();
                self.shown.rank_groups = all.len();
                self.shown.tables = all.iter().filter(|table| table.is_there()).count();
                tables::set(&mut status.conditions, over.as_ref(), &all, &now)
            }
        };
        self.shown.trouble = tables::failure(&status.conditions).map(str::to_owned);
        if news {
            let status = serde_json::to_value(&status).unwrap_or_default();
            self.written = self.course().status(status).await?;
        }
        result
    }

    async fn resize(&mut self, pod: &str, size: &str) -> Result<(), WriteError> {
        let writer = &self.outlets.writer;
        let api: kube::Api<Pod> =
            kube::Api::namespaced(writer.client().clone(), &self.key.namespace);
        let change = json!({"metadata": {"annotations": {names::RANK_GROUP_SIZE: size}}});
        // It is never closed.
        let _room = self.outlets.room.acquire().await;
        match writer.merge(&api, pod, &change).await {
            Ok(_) => {
                let write = metrics::Write { verb: "mark", kind: "Pod" };
                self.outlets.metrics.writes.get_or_create(&write).inc();
                Ok(())
            }
            Err(WriteError::Gone { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Says once what is wrong.
    fn troubled(&mut self, trouble: &Trouble) {
        if self.said.as_ref() == Some(trouble) {
            return;
        }
        self.said = Some(trouble.clone());
        self.warn(GENERATION_FAILED, trouble.message.clone());
    }
}
