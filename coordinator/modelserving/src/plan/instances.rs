//! The pods of an instance.

use std::sync::Arc;

use super::Draft;
use crate::api::Role;
use crate::naming;
use crate::pod::{self, Maker, Slot, Source};
use crate::step::{Failure, Kind, Note, Object, Step};
use crate::store::{At, Change};

impl Draft<'_> {
    /// Makes a new instance, and knows it once all its pods are made.
    pub(super) fn add_instance(
        &mut self,
        at: &At,
        (role, roles): (&Role, &[Role]),
        revision: &Arc<str>,
        hash: &Arc<str>,
    ) -> Result<(), String> {
        let start = self.plan.steps.len();
        self.make_pods(at, (role, roles), revision, hash)?;
        let note = Note::role("Creating", &at.group, &at.role, &at.id);
        let (revision, hash) = (revision.clone(), hash.clone());
        let added = Change::AddInstance { at: at.clone(), revision, hash };
        // Who begins to lead while an instance goes makes it anew beside pods that are still there.
        let before = self.seen.pods_of(&at.group, &at.role, &at.id);
        let before = before.filter(|pod| pod.thing.ours && pod.thing.terminating);
        let replaced: Vec<Change> =
            before.map(|pod| Change::Replaced(pod.thing.uid.into())).collect();
        // It comes with the last pod and not after it: pods that are neighbours can be made side by side.
        match self.plan.steps.get_mut(start..).and_then(<[Step]>::last_mut) {
            Some(last) => {
                self.store.apply(&added);
                last.changes.push(added);
                last.changes.extend(replaced);
                last.notes.push(note);
            }
            None => {
                self.push(Step { notes: vec![note], ..Step::change(added) });
                replaced.into_iter().for_each(|change| self.push(Step::change(change)));
            }
        }
        Ok(())
    }

    /// Makes those pods of an instance that are not there, from a role and the roles of its group.
    pub(super) fn make_pods(
        &mut self,
        at: &At,
        (role, roles): (&Role, &[Role]),
        revision: &Arc<str>,
        hash: &Arc<str>,
    ) -> Result<(), String> {
        if let Err(error) = &self.chain {
            return Err(format!("build plugin chain: {error}"));
        }
        let serving = naming::name(self.serving);
        let workers = if role.worker_template.is_some() { role.worker_replicas } else { 0 };
        for index in 0..=workers {
            if self.room(1) == 0 {
                break;
            }
            let name = self.shape.pod(serving, &at.group, &at.id, index);
            if self.created.contains(&name) {
                continue;
            }
            if let Some(known) = self.seen.pod_named(&name) {
                // It has the name until it is gone, and nobody may say when that is.
                if !known.thing.ours || known.thing.terminating {
                    self.soon();
                }
                continue;
            }
            let slot = Slot {
                serving,
                namespace: naming::namespace(self.serving),
                group: &at.group,
                role: &role.name,
                role_id: &at.id,
                index,
                size: role.worker_replicas.saturating_add(1),
                name: &name,
                roles,
            };
            let body = self.make_pod(&slot, &Source { role, revision, hash })?;
            self.push_create(Object { kind: Kind::Pod, name, body });
        }
        Ok(())
    }

    fn make_pod(&self, slot: &Slot<'_>, source: &Source<'_>) -> Result<serde_json::Value, String> {
        let chain = self.chain.as_ref().map_err(|error| error.clone())?;
        let (serving, shape, mutator) = (self.serving, self.shape, self.mutator);
        let maker = Maker { serving, shape, gang: self.gang(), chain, mutator };
        pod::make(&maker, slot, source)
            .map_err(|error| format!("failed to make pod {}: {error}", slot.name))
    }

    /// Does something without which the rest of the plan goes on, though the plan tells of it.
    pub(super) fn apart(&mut self, work: impl FnOnce(&mut Self) -> Result<(), String>) {
        let start = self.plan.steps.len();
        if let Err(error) = work(self) {
            self.plan.error.get_or_insert(error);
        }
        let end = self.plan.steps.len();
        for step in self.plan.steps.iter_mut().skip(start) {
            step.failure = Failure::GoOnAt(end);
        }
    }
}
