//! What the loop orders: bindings, evictions, notes of restarts, and reservations of shared devices. Each is a task of its own, which
//! sends its result to the loop.

use k8s_openapi::api::core::v1::Pod;
use muster_scheduler::input::KAI_GROUP;
use muster_scheduler_state::evicted::{self, Batch};
use muster_scheduler_state::fault::Note;
use muster_scheduler_state::object::{Name, shown};
use muster_scheduler_state::{Bind, Cycle, Evict, Outcome, Steps};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::SchedulerLoop;
use super::results::OrderResult;
use crate::transitions::Audience;
use crate::{bind, evict, fault, reserve};
use muster_runtime::writer::Writer;

// === impl SchedulerLoop ===

impl SchedulerLoop {
    pub(super) fn obey(&mut self, cycle: Cycle) {
        let Cycle { binds, evictions, notes, decisions, panics: _ } = cycle;
        for bind in binds {
            self.send_bind(bind);
        }
        for batch in evicted::batches(&self.cluster, evictions) {
            self.send_evictions(batch);
        }
        for note in notes {
            self.send_note(note);
        }
        self.context.metrics.faulted(self.cluster.faults().faulted());
        self.status.mark(&decisions);
        self.status.write_changes(&self.cluster, &decisions, self.clock.now());
        self.context.shown.set(decisions);
    }

    pub(super) fn send_bind(&self, order: Bind) {
        let marks = self
            .cluster
            .membership(&order.pod)
            .map(|known| (KAI_GROUP.to_owned(), known.group.clone()));
        let (writer, send_result) = (self.context.writer.clone(), self.send_result.clone());
        let (permits, transitions) = (self.permits.clone(), self.transitions.clone());
        let pool = self.settings.cluster.config.params.node_pool.name().to_owned();
        tokio::spawn(async move {
            let Ok(permit) = permits.acquire_owned().await else { return };
            let outcome = bind::bind(&writer, &order, marks.into_iter().collect()).await;
            drop(permit);
            let is_done = outcome == Outcome::Done;
            // Nobody listens any more when the term is over.
            let _ended =
                send_result.send(OrderResult::Bound(order.pod.clone(), order.uid.clone(), outcome));
            if is_done {
                transitions.scheduled(&order, &pool);
            }
        });
    }

    /// A restart because of a fault is written down; its pods go when that is done.
    fn send_note(&self, note: Note) {
        self.context.metrics.restarts(note.policy.word());
        let (context, send_result) = (self.context.clone(), self.send_result.clone());
        tokio::spawn(async move {
            let outcome = fault::note(&context, &note).await;
            let _ended = send_result.send(OrderResult::Noted(note.group, note.restart.at, outcome));
        });
    }

    /// Looks after devices that pods share.
    pub(super) fn share(&mut self) {
        let unmarked = self.cluster.reservations().unmarked();
        let device = |(node, pod, uid): (&str, &Name, &str)| {
            Some((pod.clone(), uid.to_owned(), reserve::device(&self.hub, node, uid)?))
        };
        let found: Vec<(Name, String, String)> = unmarked.filter_map(device).collect();
        for (pod, uid, device) in found {
            self.cluster.found(&pod, &uid, &device);
        }
        // Nothing is decided before everything has been listed.
        if !self.unlisted.is_empty() {
            return;
        }
        let steps = self.cluster.share(self.clock.now());
        self.context.metrics.reserved(self.cluster.reservations().len());
        self.obey_steps(steps);
    }

    fn obey_steps(&mut self, steps: Steps) {
        let Steps { make, mark, release, lost, clear, binds, given_up } = steps;
        for order in make {
            let what = self.settings.reservation.clone();
            let params = &self.settings.cluster.config.params;
            let app = params.resource_reservation_app_label.clone();
            self.send(|writer| async move {
                let outcome = reserve::make(&writer, &order, &what, &app).await;
                OrderResult::Made(order.spot, outcome)
            });
        }
        for order in mark {
            self.send(|writer| async move {
                let outcome = reserve::mark(&writer, &order).await;
                OrderResult::Annotated(order.pod, order.uid, outcome)
            });
        }
        for order in lost {
            let pod = shown(&order.pod);
            tracing::warn!(pod, reason = "reservation", "deleted: its device is not held any more");
            let events = self.context.events.clone();
            self.send(|writer| async move {
                let outcome = reserve::lose(&writer, &events, &order).await;
                OrderResult::Released(order.pod, order.uid, outcome)
            });
        }
        for order in release {
            self.send(|writer| async move {
                let outcome = reserve::release(&writer, &order).await;
                OrderResult::Released(order.pod, order.uid, outcome)
            });
        }
        for order in clear {
            let pod = shown(&order.pod);
            tracing::info!(
                pod,
                reason = "reservation",
                "loses labels of a binding that was not finished"
            );
            self.send(|writer| async move {
                let outcome = reserve::clear(&writer, &order).await;
                OrderResult::Cleared(order.pod, order.uid, outcome)
            });
        }
        for (pod, why) in given_up {
            tracing::warn!(pod = shown(&pod), reason = "binding", "given up for now: {why}");
            self.changed.get_or_insert_with(Instant::now);
        }
        for bind in binds {
            self.send_bind(bind);
        }
    }

    /// Writes something; the result comes later.
    fn send<F>(&self, order: impl FnOnce(Writer) -> F)
    where
        F: Future<Output = OrderResult> + Send + 'static,
    {
        let (written, send_result) = (order(self.context.writer.clone()), self.send_result.clone());
        let permits = self.permits.clone();
        tokio::spawn(async move {
            let Ok(_permit) = permits.acquire_owned().await else { return };
            // Nobody listens any more when the term is over.
            let _ended = send_result.send(written.await);
        });
    }

    /// Pods of one group go; when all have been told, the group and its owner hear of those that do.
    fn send_evictions(&self, batch: Batch) {
        let audience = Audience::of(&self.cluster, &batch);
        let mut going = JoinSet::new();
        for order in batch.pods {
            going.spawn(self.evict(order));
        }
        let transitions = self.transitions.clone();
        tokio::spawn(async move {
            let (mut gone, mut seen) = (Vec::new(), None);
            while let Some(ended) = going.join_next().await {
                let Ok(Some((order, pod))) = ended else { continue };
                gone.push(order);
                seen = seen.or(pod);
            }
            gone.sort_by(|one, other| one.pod.cmp(&other.pod));
            transitions.batch(&gone, audience, seen.as_ref());
        });
    }

    /// Makes a pod go. The order and the pod, if it does.
    fn evict(&self, order: Evict) -> impl Future<Output = Option<(Evict, Option<Pod>)>> + use<> {
        let (writer, send_result, how) =
            (self.context.writer.clone(), self.send_result.clone(), self.settings.eviction);
        let (permits, transitions) = (self.permits.clone(), self.transitions.clone());
        async move {
            let permit = permits.acquire_owned().await.ok()?;
            let message = evicted::message(&[&order.pod], &order.why);
            let (outcome, seen) = evict::evict(&writer, &order, how, &message).await;
            drop(permit);
            let goes = outcome == Outcome::Done;
            let _ended = send_result.send(OrderResult::Evicted(
                order.pod.clone(),
                order.uid.clone(),
                outcome,
            ));
            if !goes {
                return None;
            }
            transitions.evicted(&order, message);
            Some((order, seen))
        }
    }
}
