//! A coordinator's certificates and webhooks on an API server, with the permissions of `deploy/` and no others.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::Client;
use kube::api::{Api, PostParams};
use muster_runtime::election::Fence;
use muster_runtime::writer::Writer;
use muster_sandbox::Sandbox;
use muster_serving::certs::{Bundle, CertReconciler, Certificates, Names};
use muster_serving::names::{CA_CONFIG_MAP, CERTS_SECRET};
use muster_serving::webhook::configure::configure;
use muster_serving::webhook::{Answer, Webhooks};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::world::LIMIT;

pub const NAMESPACE: &str = "muster-system";
pub const PATH: &str = "/mutate-pods";
pub const DAY: SignedDuration = SignedDuration::from_hours(24);

const RBAC: &str = include_str!("../../../deploy/coordinator/rbac.yaml");
const WEBHOOK: &str = include_str!("../../../deploy/coordinator/webhook.yaml");

/// An API server and a coordinator that leads.
pub struct Cluster {
    pub sandbox: Sandbox,
    pub keeper: CertReconciler,
    pub certificates: Certificates,
    pub webhooks: Webhooks,
    pub address: SocketAddr,
    pub fence: Fence,
    /// With the coordinator's permissions.
    pub client: Client,
    now: Arc<Mutex<Timestamp>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// The sandbox believes the machine's clock when it calls webhooks: times are some days ago.
pub fn ago(days: i32) -> Timestamp {
    Timestamp::now() - DAY * days
}

/// Waits until something of the API server's is so.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, wait).await.unwrap_or_else(|_| panic!("never: {what}"))
}

fn answer(request: &muster_serving::webhook::Request) -> Answer {
    let pod = request.object.as_ref().unwrap();
    if pod.metadata.name.as_deref() == Some("refused") {
        return Answer::Deny { code: 422, message: "not this one".to_owned() };
    }
    let mark =
        json!([{ "op": "add", "path": "/metadata/annotations", "value": { "seen": "yes" } }]);
    Answer::Patch { patch: serde_json::from_value(mark).unwrap(), warnings: Vec::new() }
}

// === impl Cluster ===

impl Cluster {
    /// A coordinator that begins at this time.
    pub async fn start(now: Timestamp) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let sandbox = Sandbox::builder()
            .strict(true)
            .controllers(None)
            .service(NAMESPACE, "muster-coordinator", 443, address)
            .start()
            .await
            .unwrap();
        let client = permitted(&sandbox).await;
        let names = Names::of_service("muster-coordinator", NAMESPACE, ["127.0.0.1"]);
        let (keeper, certificates) = CertReconciler::new(client.clone(), NAMESPACE, names);
        let now = Arc::new(Mutex::new(now));
        let clock = now.clone();
        let keeper = keeper.with_clock(Arc::new(move || *clock.lock()), Duration::from_millis(20));
        let fence = Fence::new(1, Instant::now() + Duration::from_secs(3600));
        let webhooks = Webhooks::new().on(PATH, answer);
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let tls = certificates.server_config(&[b"h2", b"http/1.1"]).unwrap();
        let (serving, stopped) = (webhooks.clone(), stop.clone());
        tasks.spawn(async move { serving.serve(listener, tls, stopped).await });
        let (following, stopped) = (keeper.clone(), stop.clone());
        tasks.spawn(async move { following.follow(stopped).await });
        let cluster = Self {
            sandbox,
            keeper,
            certificates,
            webhooks,
            address,
            fence,
            client,
            now,
            stop,
            tasks,
        };
        cluster.lead();
        cluster
    }

    fn lead(&self) {
        let writer = Writer::new(self.client.clone(), self.fence.clone());
        let (keeper, stop) = (self.keeper.clone(), self.stop.clone());
        let (its, stopped) = (writer.clone(), stop.clone());
        self.tasks.spawn(async move { keeper.lead(its, stopped).await });
        let authorities = self.certificates.authorities();
        let schedulers = vec!["muster-scheduler".to_owned()];
        let blocking = tokio::sync::watch::channel(false).1;
        self.tasks.spawn(configure(writer, authorities, schedulers, blocking, stop));
    }

    pub fn set_time(&self, now: Timestamp) {
        *self.now.lock() = now;
    }

    /// Installs `deploy/coordinator/webhook.yaml`, and waits until it can be called.
    pub async fn install(&self) {
        let documents: Vec<Value> = serde_saphyr::from_multiple(WEBHOOK).unwrap();
        for document in documents {
            let kind = document["kind"].as_str().unwrap().to_lowercase();
            let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}s");
            self.sandbox.create(&path, &document).await.unwrap();
        }
        self.trusts("muster-coordinator").await;
    }

    /// Waits until a configuration trusts the authorities of now; what they are.
    pub async fn trusts(&self, name: &str) -> String {
        let api: Api<MutatingWebhookConfiguration> = Api::all(self.sandbox.client());
        eventually("trusted", async || {
            let found = api.get(name).await.unwrap().webhooks.unwrap().remove(0).client_config;
            let found = String::from_utf8(found.ca_bundle?.0).unwrap();
            let wanted = self.certificates.authorities().borrow().clone()?;
            (found == *wanted).then_some(found)
        })
        .await
    }

    pub async fn secret(&self) -> Option<Bundle> {
        let api: Api<Secret> = Api::namespaced(self.sandbox.client(), NAMESPACE);
        let data = api.get_opt(CERTS_SECRET).await.unwrap()?.data?;
        let text = |key: &str| String::from_utf8(data[key].0.clone()).unwrap();
        Some(Bundle {
            authorities: text("ca.crt"),
            authority_key: text("ca.key"),
            certificate: text("tls.crt"),
            key: text("tls.key"),
        })
    }

    /// Waits until the Secret holds something else.
    pub async fn other_than(&self, old: &Bundle) -> Bundle {
        eventually("another bundle", async || self.secret().await.filter(|new| new != old)).await
    }

    /// What agents are told to trust.
    pub async fn told(&self) -> Option<String> {
        let api: Api<ConfigMap> = Api::namespaced(self.sandbox.client(), NAMESPACE);
        api.get_opt(CA_CONFIG_MAP).await.unwrap()?.data?.remove("ca.crt")
    }

    /// Creates a pod; whether the webhook has seen it.
    pub async fn pod(&self, namespace: &str, name: &str, labels: Value) -> kube::Result<bool> {
        let pod = json!({
            "metadata": { "name": name, "labels": labels },
            "spec": { "containers": [{ "name": "c", "image": "i" }] },
        });
        let api: Api<Pod> = Api::namespaced(self.sandbox.client(), namespace);
        let pod = api.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await?;
        Ok(pod.metadata.annotations.unwrap_or_default().contains_key("seen"))
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        tokio::time::timeout(LIMIT, self.tasks.wait()).await.expect("all of it ends");
        self.sandbox.stop().await;
    }
}

/// Installs the permissions of `deploy/`; a client that has them.
pub async fn permitted(sandbox: &Sandbox) -> Client {
    let create = async |path: &str, object: &Value| sandbox.create(path, object).await.unwrap();
    create("/api/v1/namespaces", &json!({ "metadata": { "name": NAMESPACE } })).await;
    for namespace in ["default", "kube-system", NAMESPACE] {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        create(&path, &json!({ "metadata": { "name": "default" } })).await;
    }
    let documents: Vec<Value> = serde_saphyr::from_multiple(RBAC).unwrap();
    for document in documents {
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let path = match document["kind"].as_str().unwrap() {
            "ServiceAccount" => format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"),
            "ClusterRole" => format!("{rbac}/clusterroles"),
            "ClusterRoleBinding" => format!("{rbac}/clusterrolebindings"),
            "Role" => format!("{rbac}/namespaces/{NAMESPACE}/roles"),
            "RoleBinding" => format!("{rbac}/namespaces/{NAMESPACE}/rolebindings"),
            other => panic!("what to do with a {other}?"),
        };
        create(&path, &document).await;
    }
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/muster-coordinator/token");
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": { "audiences": [], "expirationSeconds": 3600 },
    });
    let token = create(&path, &request).await;
    sandbox.http_client_as(token["status"]["token"].as_str().unwrap()).unwrap()
}
