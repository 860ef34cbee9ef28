//! DIJobs, as tests see them, and the DI server, as DI-engine calls it.

use std::net::SocketAddr;

use anyhow::Context;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use muster_dijob::api;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{Seen, World};

/// A caller of the DI server, with one connection: no Content-Type, and bodies with every method, as DI-engine has it.
pub struct Caller {
    address: SocketAddr,
    sender: SendRequest<Full<Bytes>>,
}

impl World {
    /// The DIJobs of the namespace.
    pub fn dijobs(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(api::GROUP, "v1alpha1", api::KIND);
        let resource = ApiResource::from_gvk_with_plural(&kind, "dijobs");
        Api::namespaced_with(self.client(), self.namespace(), &resource)
    }

    /// A caller of the DI server.
    pub async fn di_caller(&self) -> anyhow::Result<Caller> {
        Caller::new(self.coordinators()?.di_server()).await
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
        Ok(Self { address, sender })
    }

    /// Asks; status and body.
    pub async fn ask(
        &mut self,
        method: &str,
        target: &str,
        body: impl Into<Bytes>,
    ) -> anyhow::Result<(u16, Value)> {
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header("host", self.address.to_string())
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
