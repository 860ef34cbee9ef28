//! Electors against the sandbox: who leads, who follows, and how long that takes.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use muster_runtime::election::metrics::Reason;
use muster_runtime::election::{Elector, Fence, Leadership, Metrics, Settings, identity};
use muster_sandbox::Sandbox;
use muster_sandbox::faults::Rule;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::world::{LIMIT, until};

const NAMESPACE: &str = "default";

/// One that takes part.
struct Part {
    identity: String,
    address: String,
    leadership: watch::Receiver<Leadership>,
    metrics: Metrics,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

async fn sandbox() -> Sandbox {
    Sandbox::builder().controllers(None).start().await.unwrap()
}

fn leases(sandbox: &Sandbox) -> Api<Lease> {
    Api::namespaced(sandbox.client(), NAMESPACE)
}

async fn lease(sandbox: &Sandbox) -> Lease {
    leases(sandbox).get("muster-coordinator").await.unwrap()
}

impl Part {
    fn start(client: kube::Client, host: &str) -> Self {
        let (identity, address) = (identity(host), format!("https://{host}:7443"));
        let lease = Duration::from_secs(3);
        let settings = Settings { lease, ..Settings::new(NAMESPACE, &identity, &address) };
        let (elector, leadership) = Elector::new(client, settings);
        let (metrics, stop) = (elector.metrics().clone(), CancellationToken::new());
        let task = tokio::spawn(elector.run(stop.clone()));
        Self { identity, address, leadership, metrics, stop, task }
    }

    async fn leads(&mut self) -> Fence {
        let leading = |leadership: &Leadership| matches!(leadership, Leadership::Leading(_));
        let wait = tokio::time::timeout(LIMIT, self.leadership.wait_for(leading)).await;
        let leadership = wait.expect("it leads in time").unwrap().clone();
        let Leadership::Leading(fence) = leadership else { panic!() };
        fence
    }

    /// Waits until it stands by and knows this leader.
    async fn follows(&mut self, address: Option<&str>) {
        let follows = |leadership: &Leadership| match leadership {
            Leadership::Standby { leader } => leader.as_deref() == address,
            Leadership::Leading(_) => false,
        };
        let wait = tokio::time::timeout(LIMIT, self.leadership.wait_for(follows)).await;
        wait.expect("it follows in time").unwrap();
    }

    fn errors(&self, reason: &'static str) -> u64 {
        self.metrics.errors.get_or_create(&Reason { reason }).get()
    }

    async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(LIMIT, self.task).await.expect("it stops").unwrap();
    }
}

#[tokio::test]
async fn one_leads_and_people_and_standbys_see_who() {
    let sandbox = sandbox().await;
    let mut a = Part::start(sandbox.http_client().unwrap(), "a");
    let fence = a.leads().await;
    let mut b = Part::start(sandbox.http_client().unwrap(), "b");
    b.follows(Some(&a.address)).await;
    until("two renewals", || a.metrics.renewals.get() >= 2).await;
    assert!(fence.left().is_ok(), "the same fence stands");
    let lease = lease(&sandbox).await;
    let annotations = lease.metadata.annotations.unwrap();
    assert_eq!(annotations["muster.dev/epoch"], fence.epoch().to_string());
    assert_eq!(annotations["muster.dev/leader-address"], a.address);
    let spec = lease.spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some(&*a.identity));
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(3), Some(0)));
    assert!(spec.renew_time.unwrap().0 > spec.acquire_time.unwrap().0);
    assert_eq!((a.metrics.leader.get(), a.metrics.transitions.get()), (1, 1));
    assert_eq!((b.metrics.leader.get(), b.metrics.transitions.get()), (0, 0));
    b.stop().await;
    a.stop().await;
}

#[tokio::test]
async fn who_stops_in_order_hands_over_at_once() {
    let sandbox = sandbox().await;
    let mut a = Part::start(sandbox.http_client().unwrap(), "a");
    let first = a.leads().await;
    let mut b = Part::start(sandbox.http_client().unwrap(), "b");
    b.follows(Some(&a.address)).await;
    let began = Instant::now();
    a.stop().await;
    assert!(first.left().is_err());
    let second = b.leads().await;
    println!("handed over in {:.0?}", began.elapsed());
    assert!(second.epoch() > first.epoch());
    assert_eq!(lease(&sandbox).await.spec.unwrap().lease_transitions, Some(1));
    b.stop().await;
    let spec = lease(&sandbox).await.spec.unwrap();
    assert_eq!((spec.holder_identity, spec.renew_time), (None, None), "nobody is left");
}

#[tokio::test]
async fn without_a_watch_it_is_seen_by_looking_now_and_then() {
    let sandbox = sandbox().await;
    sandbox.faults().add(Rule::refusal(500).verb("watch").resource("leases.coordination.k8s.io"));
    let mut a = Part::start(sandbox.http_client().unwrap(), "a");
    let first = a.leads().await;
    let mut b = Part::start(sandbox.http_client().unwrap(), "b");
    b.follows(Some(&a.address)).await;
    until("the watch fails", || b.errors("watch") > 0).await;
    let began = Instant::now();
    a.stop().await;
    let second = b.leads().await;
    println!("handed over without a watch in {:.0?}", began.elapsed());
    assert!(second.epoch() > first.epoch());
    b.stop().await;
}

#[tokio::test]
async fn after_a_kill_another_leads_when_the_lease_is_over() {
    let sandbox = sandbox().await;
    let mut a = Part::start(sandbox.http_client().unwrap(), "a");
    let first = a.leads().await;
    let mut b = Part::start(sandbox.http_client().unwrap(), "b");
    b.follows(Some(&a.address)).await;
    let began = Instant::now();
    a.task.abort();
    let second = b.leads().await;
    println!("another leads {:.1?} after a kill; the lease is 3 s", began.elapsed());
    assert!(first.left().is_err());
    assert!(second.epoch() > first.epoch());
    let spec = lease(&sandbox).await.spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some(&*b.identity));
    assert_eq!(spec.lease_transitions, Some(1));
    b.stop().await;
}

#[tokio::test]
async fn a_leader_without_the_api_ends_by_itself_and_begins_anew_when_it_is_back() {
    let sandbox = sandbox().await;
    let mut a = Part::start(sandbox.http_client().unwrap(), "a");
    let first = a.leads().await;
    let began = Instant::now();
    sandbox.faults().add(Rule::refusal(500).resource("leases.coordination.k8s.io"));
    a.follows(None).await;
    println!("a leader without the API ended after {:.1?}", began.elapsed());
    assert!(first.left().is_err());
    assert!(a.errors("refused") > 0);
    assert_eq!(a.metrics.leader.get(), 0);
    sandbox.faults().clear();
    let second = a.leads().await;
    assert!(second.epoch() > first.epoch());
    assert!(first.left().is_err(), "what has ended stays ended");
    a.stop().await;
}

#[tokio::test]
async fn who_is_cut_off_ends_before_another_leads() {
    let sandbox = sandbox().await;
    let (client, cut) = cuttable(&sandbox);
    let mut a = Part::start(client, "a");
    let first = a.leads().await;
    let mut b = Part::start(sandbox.http_client().unwrap(), "b");
    b.follows(Some(&a.address)).await;
    cut.cancel();
    let began = Instant::now();
    let ends = async {
        a.follows(None).await;
        println!("who is cut off ended after {:.1?}", began.elapsed());
    };
    let follows = async {
        let second = b.leads().await;
        println!("another leads after {:.1?}", began.elapsed());
        assert!(first.left().is_err(), "the lease is longer than the fence");
        second
    };
    let ((), second) = tokio::join!(ends, follows);
    assert!(second.epoch() > first.epoch());
    assert!(a.errors("late") > 0);
    b.stop().await;
    a.stop().await;
}

/// A client that gets no answer any more once it is cut.
fn cuttable(sandbox: &Sandbox) -> (kube::Client, CancellationToken) {
    let (inner, cut) = (sandbox.client(), CancellationToken::new());
    let is_cut = cut.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (inner, is_cut) = (inner.clone(), is_cut.clone());
        async move {
            if is_cut.is_cancelled() {
                std::future::pending::<()>().await;
            }
            inner.send(request).await
        }
    });
    (kube::Client::new(service, NAMESPACE), cut)
}

#[tokio::test]
async fn nothing_that_somebody_writes_into_the_lease_stops_it() {
    let sandbox = sandbox().await;
    let leases = leases(&sandbox);
    let name = "muster-coordinator";
    // An empty one, to begin with.
    sandbox
        .create(
            &format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"),
            &json!({"metadata": {"name": name}}),
        )
        .await
        .unwrap();
    let mut a = Part::start(sandbox.http_client().unwrap(), "a");
    let first = a.leads().await;
    let edit = json!({
        "metadata": {"annotations": {"muster.dev/epoch": "seven", "muster.dev/leader-address": null}},
        "spec": {"leaseDurationSeconds": null, "leaseTransitions": null, "acquireTime": null},
    });
    leases.patch(name, &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    let renewals = a.metrics.renewals.get();
    until("a renewal", || a.metrics.renewals.get() > renewals).await;
    assert!(first.left().is_ok());
    let healed = lease(&sandbox).await;
    let annotations = healed.metadata.annotations.unwrap();
    assert_eq!(annotations["muster.dev/epoch"], first.epoch().to_string());
    assert_eq!(annotations["muster.dev/leader-address"], a.address);
    // Deleted: the leader notices, and leads again in a new epoch.
    leases.delete(name, &DeleteParams::default()).await.unwrap();
    until("the fence is down", || first.left().is_err()).await;
    let second = a.leads().await;
    assert!(second.epoch() > first.epoch());
    // Another holder out of nowhere.
    let edit = json!({"spec": {"holderIdentity": "somebody"}});
    leases.patch(name, &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    until("the fence is down", || second.left().is_err()).await;
    let third = a.leads().await;
    assert!(third.epoch() > second.epoch());
    a.stop().await;
}

#[tokio::test]
async fn these_rights_are_enough() {
    let sandbox = Sandbox::builder().controllers(None).strict(true).start().await.unwrap();
    let create = async |path: &str, object| sandbox.create(path, &object).await.unwrap();
    let meta = json!({"name": "elector"});
    let account = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
    create(&account, json!({"metadata": meta})).await;
    let group = ["coordination.k8s.io"];
    let one = json!({
        "apiGroups": group, "resources": ["leases"], "resourceNames": ["muster-coordinator"],
        "verbs": ["get", "list", "watch", "update"],
    });
    let any = json!({"apiGroups": group, "resources": ["leases"], "verbs": ["create"]});
    let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}");
    create(&format!("{rbac}/roles"), json!({"metadata": meta, "rules": [one, any]})).await;
    let binding = json!({
        "metadata": meta,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "elector"},
        "subjects": [{"kind": "ServiceAccount", "name": "elector", "namespace": NAMESPACE}],
    });
    create(&format!("{rbac}/rolebindings"), binding).await;
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": [], "expirationSeconds": 600},
    });
    let answer = create(&format!("{account}/elector/token"), request).await;
    let token = answer["status"]["token"].as_str().unwrap();
    let mut a = Part::start(sandbox.http_client_as(token).unwrap(), "a");
    a.leads().await;
    let mut b = Part::start(sandbox.http_client_as(token).unwrap(), "b");
    b.follows(Some(&a.address)).await;
    until("a renewal", || a.metrics.renewals.get() > 0).await;
    assert_eq!((b.errors("watch"), b.errors("refused"), a.errors("refused")), (0, 0, 0));
    a.stop().await;
    b.leads().await;
    b.stop().await;
}
