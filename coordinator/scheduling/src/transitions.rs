//! Events when pods get a node and when they must go: on the pod, on its group and on whoever owns the group. One for each
//! change, recorded after it was done. No binding and no eviction waits for an event: a few tasks write them, beside the orders'
//! own permits. What an API server cannot take in time waits; beyond a bound it is dropped and counted.

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::ResourceExt as _;
use muster_scheduler::input::{Dialect, PodGroup};
use muster_scheduler_state::evicted::{self, Batch, EVICT};
use muster_scheduler_state::fault::Group;
use muster_scheduler_state::object::{Name, shown};
use muster_scheduler_state::{Bind, Cluster, Evict};
use prometheus_client::metrics::counter::Counter;
use tokio_util::sync::CancellationToken;

use muster_runtime::EventRecorder;
use muster_runtime::events::Events;

/// Reason of a pod's event: it has a node.
pub const SCHEDULED: &str = "Scheduled";
/// Events `Scheduled` that wait at most: as many as one burst of bindings may leave behind. Each takes about half a KiB.
const MOST_SCHEDULED: usize = 16_384;
/// Events `Scheduled` that are written at once.
const WRITES: usize = 4;

/// Records the events. Copies share what waits to be written.
#[derive(Clone)]
pub struct Transitions {
    /// One for each pod: they must not crowd out the others.
    scheduled: EventRecorder,
    evicted: EventRecorder,
}

/// Whom an eviction is told to besides its pods.
#[derive(Clone, Debug, Default)]
pub struct Audience {
    /// The group.
    group: Option<ObjectReference>,
    /// Who owns the group.
    owner: Option<ObjectReference>,
}

// === impl Transitions ===

impl Transitions {
    /// Writes until it is stopped. Events that are dropped are counted.
    pub fn start(events: &Events, dropped: &Counter, stop: &CancellationToken) -> Self {
        let recorder = || EventRecorder::new(events.clone(), dropped.clone());
        let (scheduled, evicted) = (recorder().holding(MOST_SCHEDULED), recorder());
        for _ in 0..WRITES {
            tokio::spawn(scheduled.clone().run(stop.clone()));
        }
        tokio::spawn(evicted.clone().run(stop.clone()));
        Self { scheduled, evicted }
    }

    /// A pod has a node.
    pub fn scheduled(&self, bind: &Bind, pool: &str) {
        let (pod, node) = (shown(&bind.pod), &bind.node);
        let note = format!("Successfully assigned pod {pod} to node {node} at node-pool {pool}");
        self.scheduled.normal(of_pod(&bind.pod, &bind.uid), SCHEDULED, note);
    }

    /// A pod goes.
    pub fn evicted(&self, evict: &Evict, message: String) {
        let about = of_pod(&evict.pod, &evict.uid);
        self.evicted.warning(about, evicted::reason(&evict.why), message);
    }

    /// Pods of a group have gone. `seen` is one of them: it names its owner if the group has none.
    pub fn batch(&self, gone: &[Evict], audience: Audience, seen: Option<&Pod>) {
        let Some(first) = gone.first() else { return };
        let pods: Vec<&Name> = gone.iter().map(|one| &one.pod).collect();
        let message = evicted::message(&pods, &first.why);
        if let Some(group) = audience.group.filter(|_| !evicted::is_noted(&first.why)) {
            let annotations = evicted::annotations(gone.len(), &first.why);
            self.evicted.annotated(group, EVICT, message.clone(), annotations);
        }
        if let Some(owner) = audience.owner.or_else(|| seen.and_then(controller)) {
            self.evicted.warning(owner, evicted::reason(&first.why), message);
        }
    }
}

// === impl Audience ===

impl Audience {
    /// Of a batch, by what is known of its group.
    pub fn of(cluster: &Cluster, batch: &Batch) -> Self {
        let Some((dialect, name)) = &batch.group else { return Self::default() };
        let Some(known) = cluster.pod_group(*dialect, name) else { return Self::default() };
        let group = Some(of_group(&(*dialect, name.clone()), known));
        let owners = &known.metadata.owner_references;
        let first = owners.iter().find(|one| one.controller == Some(true)).or(owners.first());
        let owner = first.map(|owner| ObjectReference {
            api_version: Some(owner.api_version.clone()),
            kind: Some(owner.kind.clone()),
            namespace: Some(name.0.to_string()),
            name: Some(owner.name.clone()),
            uid: Some(owner.uid.clone()),
            ..ObjectReference::default()
        });
        // A pod of its own group is told already.
        Self { group, owner: owner.filter(|owner| owner.kind.as_deref() != Some("Pod")) }
    }
}

/// Who controls a pod.
fn controller(pod: &Pod) -> Option<ObjectReference> {
    let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true))?;
    Some(ObjectReference {
        api_version: Some(owner.api_version.clone()),
        kind: Some(owner.kind.clone()),
        namespace: pod.namespace(),
        name: Some(owner.name.clone()),
        uid: Some(owner.uid.clone()),
        ..ObjectReference::default()
    })
}

fn of_pod(pod: &Name, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.0.to_string()),
        name: Some(pod.1.to_string()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

fn of_group((dialect, name): &Group, group: &PodGroup) -> ObjectReference {
    let version = match dialect {
        Dialect::Kai => "scheduling.run.ai/v2alpha2",
        Dialect::Coscheduling => "scheduling.x-k8s.io/v1alpha1",
        Dialect::Volcano => "scheduling.volcano.sh/v1beta1",
    };
    ObjectReference {
        api_version: Some(version.to_owned()),
        kind: Some("PodGroup".to_owned()),
        namespace: Some(name.0.to_string()),
        name: Some(name.1.to_string()),
        uid: Some(group.metadata.uid.clone()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use http::{Request, Response, StatusCode};
    use kube::client::Body;
    use muster_scheduler_state::object::name;

    use super::*;

    /// Pods of the burst.
    const PODS: usize = 10_000;

    fn bind(number: usize) -> Bind {
        Bind {
            pod: name("team", &format!("worker-{number}")),
            uid: format!("11111111-2222-3333-4444-{number:012}"),
            node: format!("node-{}", number / 8),
            gpu_groups: Vec::new(),
            share: None,
            annotations: Default::default(),
            attempt: 0,
        }
    }

    /// An API server that takes events and counts them.
    fn counting(count: Arc<AtomicUsize>) -> kube::Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            assert_eq!((request.method().as_str(), request.uri().path()), ("POST", EVENTS));
            let body = request.into_body().collect_bytes();
            let count = count.clone();
            async move {
                let body = body.await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                let answer = Response::builder().status(StatusCode::CREATED);
                Ok::<_, Infallible>(answer.body(Body::from(body.to_vec())).unwrap())
            }
        });
        kube::Client::new(service, "team")
    }

    const EVENTS: &str = "/api/v1/namespaces/team/events";

    /// Milliseconds of processor that this thread has used.
    fn processor() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks = |at: usize| fields[at].parse::<u64>().unwrap();
        (ticks(11) + ticks(12)) * 10
    }

    #[tokio::test]
    async fn every_pod_of_a_burst_of_ten_thousand_gets_its_event() {
        let (count, dropped) = (Arc::new(AtomicUsize::new(0)), Counter::default());
        let events = Events::new(counting(count.clone()), "test");
        let (stop, begun) = (CancellationToken::new(), processor());
        let transitions = Transitions::start(&events, &dropped, &stop);
        for number in 0..PODS {
            transitions.scheduled(&bind(number), "default");
        }
        let recorded = processor();
        while count.load(Ordering::Relaxed) < PODS {
            tokio::task::yield_now().await;
        }
        let written = processor();
        println!(
            "{PODS} events: {} ms of processor to record, {} ms to write",
            recorded - begun,
            written - recorded
        );
        assert_eq!(dropped.get(), 0);
        stop.cancel();
    }

    #[tokio::test(start_paused = true)]
    async fn who_orders_never_waits_for_an_api_server_that_takes_no_events_and_what_is_lost_is_counted()
     {
        let never = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Infallible>>()
        });
        let (dropped, stop) = (Counter::default(), CancellationToken::new());
        let events = Events::new(kube::Client::new(never, "team"), "test");
        let transitions = Transitions::start(&events, &dropped, &stop);
        // Nothing here awaits.
        for number in 0..PODS {
            transitions.scheduled(&bind(number), "default");
        }
        assert_eq!(dropped.get(), 0, "they wait");
        for number in PODS..2 * PODS {
            transitions.scheduled(&bind(number), "default");
        }
        assert_eq!(dropped.get(), (2 * PODS - MOST_SCHEDULED) as u64);
        // An event that is not taken in time is given up, and counted too.
        let before = dropped.get();
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert!(dropped.get() > before);
        stop.cancel();
    }
}
