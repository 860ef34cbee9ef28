//! DIJobs, as tests see them, and the DI server, as DI-engine calls it.

use std::net::SocketAddr;

use anyhow::Context;
use bytes::Bytes;
use http::Request;
use http::header::{AUTHORIZATION, HeaderName};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use muster_dijob::{api, names};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{Seen, World};

/// An account that may ask the DI server, beside the pods of a job.
pub const ACCOUNT: &str = "di-caller";

/// A caller of the DI server, with one connection: no Content-Type, and bodies with every method, as DI-engine has it.
pub struct Caller {
    address: SocketAddr,
    sender: SendRequest<Full<Bytes>>,
    headers: Vec<(HeaderName, String)>,
}

impl World {
    /// The DIJobs of the namespace.
    pub fn dijobs(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(api::GROUP, "v1alpha1", api::KIND);
        let resource = ApiResource::from_gvk_with_plural(&kind, "dijobs");
        Api::namespaced_with(self.client(), self.namespace(), &resource)
    }

    /// A caller of the DI server who may do all: simulated pods have no network, and callers no addresses of pods.
    pub async fn di_caller(&self) -> anyhow::Result<Caller> {
        let caller = Caller::new(self.coordinators()?.di_server()).await?;
        Ok(caller.with_token(&self.di_token().await?))
    }

    /// The token that it shows.
    pub async fn di_token(&self) -> anyhow::Result<String> {
        let made = self.di_token.get_or_try_init(async || {
            self.may_ask(ACCOUNT, &["create", "delete", "get", "list"]).await?;
            self.token_of(ACCOUNT, names::AUDIENCE).await
        });
        Ok(made.await?.clone())
    }

    /// An account of the namespace that may do this with the replicas of its DIJobs. Returns when Kubernetes knows.
    pub async fn may_ask(&self, account: &str, verbs: &[&str]) -> anyhow::Result<()> {
        let metadata = json!({"name": account});
        let (rbac, api) = ("rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1");
        self.create_if_missing(
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        )
        .await?;
        self.create_if_missing(json!({"apiVersion": api, "kind": "Role", "metadata": metadata,
            "rules": [{"apiGroups": [api::GROUP], "resources": ["dijobs/replicas"], "verbs": verbs}]}))
            .await?;
        self.create_if_missing(json!({"apiVersion": api, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": account},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": self.namespace()}]}))
            .await?;
        let Some(verb) = verbs.first() else { return Ok(()) };
        let review: SubjectAccessReview = serde_json::from_value(json!({"metadata": {}, "spec": {
            "user": format!("system:serviceaccount:{}:{account}", self.namespace()),
            "resourceAttributes": {"verb": verb, "group": api::GROUP, "resource": names::JOBS,
                "subresource": names::REPLICAS, "namespace": self.namespace()}}}))?;
        let reviews: Api<SubjectAccessReview> = Api::all(self.client());
        self.until(&format!("the rights of {account}"), async || {
            let answer = reviews.create(&PostParams::default(), &review).await?;
            let allowed = answer.status.is_some_and(|status| status.allowed);
            Ok(if allowed { Seen::Yes(()) } else { Seen::NotYet("it may not".to_owned()) })
        })
        .await
    }

    /// A token of an account of the namespace, for an audience.
    pub async fn token_of(&self, account: &str, audience: &str) -> anyhow::Result<String> {
        let request: TokenRequest = serde_json::from_value(
            json!({"metadata": {}, "spec": {"audiences": [audience], "expirationSeconds": 3600}}),
        )?;
        let accounts = self.api::<ServiceAccount>();
        let made = accounts.create_token_request(account, &PostParams::default(), &request).await?;
        Ok(made.status.context("the answer has no token")?.token)
    }

    /// Waits until a DIJob is in this phase; its status.
    pub async fn dijob_is(&self, name: &str, phase: &str) -> anyhow::Result<Value> {
        let api = self.dijobs();
        self.until(&format!("DIJob {name} {phase}"), async || {
            let object = serde_json::to_value(api.get(name).await?)?;
            let status = object["status"].clone();
            Ok(match status["phase"] == phase {
                true => Seen::Yes(status),
                false => Seen::NotYet(status.to_string()),
            })
        })
        .await
    }
}

// === impl Caller ===

impl Caller {
    /// Connects to the DI server.
    pub async fn new(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.context("the DI server")?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { address, sender, headers: Vec::new() })
    }

    /// The same with a bearer token.
    #[must_use]
    pub fn with_token(self, token: &str) -> Self {
        self.with_header(AUTHORIZATION, format!("Bearer {token}"))
    }

    /// The same with a header in every request.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Asks; status and body.
    pub async fn ask(
        &mut self,
        method: &str,
        target: &str,
        body: impl Into<Bytes>,
    ) -> anyhow::Result<(u16, Value)> {
        let request =
            Request::builder().method(method).uri(target).header("host", self.address.to_string());
        let request = self
            .headers
            .iter()
            .fold(request, |request, (name, value)| request.header(name, value))
            .body(Full::new(body.into()))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        let said = serde_json::from_slice(&body)
            .unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned().into());
        Ok((status, said))
    }

    /// Asks for more replicas of a job.
    pub async fn create(
        &mut self,
        namespace: &str,
        coordinator: &str,
        collectors: &Value,
        learners: &Value,
    ) -> anyhow::Result<(u16, Value)> {
        let body = json!({"namespace": namespace, "coordinator": coordinator,
            "collectors": collectors, "learners": learners});
        self.ask("POST", muster_dijob::server::REPLICAS, body.to_string()).await
    }

    /// Asks what a coordinator has.
    pub async fn query(
        &mut self,
        namespace: &str,
        coordinator: &str,
    ) -> anyhow::Result<(u16, Value)> {
        let path = muster_dijob::server::REPLICAS;
        let target = format!("{path}?namespace={namespace}&coordinator={coordinator}");
        self.ask("GET", &target, "{}").await
    }
}

/// The label selector of a DIJob's pods.
pub fn selector(job: &str) -> String {
    format!("dijob-name={job}")
}
