//! Trainers that report how far they are.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::ConfigMap;
use muster_sandbox::hardware::Profile;
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::coordinators::Choices;
use muster_tests::world::jobset::selector;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

use super::{job, script, torch};

/// Says where and with what to report, and stays.
const TELL: &str = "echo url $KUBEFLOW_TRAINER_SERVER_URL; \
    echo token $(cat $SANDBOX_ROOTFS$KUBEFLOW_TRAINER_SERVER_TOKEN); \
    test -s $SANDBOX_ROOTFS$KUBEFLOW_TRAINER_SERVER_CA_CERT; echo told; exec sleep 600";

/// What a trainer was given.
struct Given {
    host: String,
    path: String,
    token: String,
    authority: String,
}

/// Waits until the container of a job has said what it was given.
async fn given(world: &World, name: &str) -> Result<Given> {
    let pods = world.pods_in(&selector(name), 1, "Running").await?;
    let said = world
        .until("what the trainer was given", async || {
            let said = world.said(&pods[0]).await?;
            // The line: a job may have that word in its name.
            let whole = said.lines().any(|line| line == "told");
            Ok(if whole { Seen::Yes(said) } else { Seen::NotYet(said) })
        })
        .await?;
    let line = |word: &str| {
        let found = said.lines().find_map(|line| line.strip_prefix(word));
        found.map(|rest| rest.trim().to_owned()).with_context(|| format!("{word}: {said}"))
    };
    let url = line("url ")?;
    let rest = url.strip_prefix("https://").with_context(|| url.clone())?;
    let (host, path) = rest.split_once('/').with_context(|| url.clone())?;
    let (host, _port) = host.split_once(':').with_context(|| url.clone())?;
    let map = world.api::<ConfigMap>().get(&format!("{name}-tls-config")).await?;
    let authority = map.data.unwrap_or_default().remove("ca.crt").context("no ca.crt")?;
    let (host, path) = (host.to_owned(), format!("/{path}"));
    Ok(Given { host, path, token: line("token ")?, authority })
}

impl Given {
    /// Sends a report over TLS, and believes the server as the trainer would; the answer.
    async fn send(
        &self,
        world: &World,
        path: &str,
        token: &str,
        body: Bytes,
    ) -> Result<(u16, Value)> {
        let leader = world.coordinators()?.leader().context("nobody leads")?;
        let address = leader.coordinator().addresses().progress.context("no reports are taken")?;
        let mut roots = RootCertStore::empty();
        for one in CertificateDer::pem_slice_iter(self.authority.as_bytes()) {
            roots.add(one?)?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(self.host.clone())?;
        let socket = TcpStream::connect(address).await?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await?;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::post(path)
            .header(header::HOST, &self.host)
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .body(Full::new(body))?;
        let answer = sender.send_request(request).await?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    /// Sends a report of the right path and token.
    async fn report(&self, world: &World, body: &Value) -> Result<(u16, Value)> {
        self.send(world, &self.path, &self.token, body.to_string().into()).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trainer_reports_its_progress_with_what_its_pod_was_given_and_for_its_job_alone()
-> Result<()> {
    World::new()
        .nodes_of(Profile::Cpu, 1)
        .processes()
        .coordinators(1)
        .choices(Choices { reports: true, ..Choices::default() })
        .run(async |world| {
            world.create_object(torch("plain", script(TELL))).await?;
            world.train(job("told", "plain", 1)).await?;
            world.train(job("other", "plain", 1)).await?;
            let (told, other) = (given(world, "told").await?, given(world, "other").await?);
            let time = "2026-01-02T03:04:05Z";
            let full = json!({"trainerStatus": {"progressPercentage": 42, "lastUpdatedTime": time,
                "estimatedRemainingSeconds": 7, "metrics": [{"name": "loss", "value": "0.1"}]}});
            let (status, said) = told.report(world, &full).await?;
            assert_eq!((status, &said), (200, &full));
            // What the controller says stands beside it.
            let job = world
                .until("both parts of the status", async || {
                    let job = world.trainjob("told").await?;
                    let said = job["status"].to_string();
                    let both = job["status"]["jobsStatus"].is_array();
                    Ok(if both { Seen::Yes(job) } else { Seen::NotYet(said) })
                })
                .await?;
            assert_eq!(job["status"]["trainerStatus"], full["trainerStatus"]);
            ensure!(job["metadata"]["managedFields"].to_string().contains("trainer-status"));
            ensure!(world.trainjob("other").await?["status"]["trainerStatus"].is_null());

            // Nothing to write is no error.
            let (status, said) = told.report(world, &json!({})).await?;
            assert_eq!((status, said), (200, json!({})));
            // Another job's token, no token, another path, a lie, nonsense, too much.
            let bytes = || Bytes::from(full.to_string());
            let (status, said) = told.send(world, &told.path, &other.token, bytes()).await?;
            assert_eq!((status, &said["kind"]), (403, &json!("Status")), "{said}");
            let (status, said) = told.send(world, &told.path, "x.y.z", bytes()).await?;
            assert_eq!((status, &said["reason"]), (403, &json!("Forbidden")), "{said}");
            let (status, said) = told.send(world, "/healthz", &told.token, bytes()).await?;
            assert_eq!(status, 404, "{said}");
            let lie =
                json!({"trainerStatus": {"progressPercentage": 142, "lastUpdatedTime": time}});
            let (status, said) = told.report(world, &lie).await?;
            assert_eq!(status, 422, "{said}");
            ensure!(said["message"].to_string().contains("progressPercentage"), "{said}");
            let (status, said) =
                told.report(world, &json!({"trainerStatus": {"progressPercentage": 1}})).await?;
            assert_eq!(status, 422, "the time is missing: {said}");
            let (status, said) = told.send(world, &told.path, &told.token, "{".into()).await?;
            assert_eq!(status, 422, "{said}");
            let (status, said) =
                told.send(world, &told.path, &told.token, vec![b' '; 65 * 1024].into()).await?;
            assert_eq!(status, 413, "{said}");
            let status = &world.trainjob("told").await?["status"]["trainerStatus"];
            assert_eq!(*status, full["trainerStatus"], "what is refused changes nothing");
            // The job is gone, its token is still good.
            world.trainjobs().delete("other", &kube::api::DeleteParams::default()).await?;
            world
                .until("no job", async || {
                    let found = world.trainjobs().get_opt("other").await?;
                    Ok(found.map_or(Seen::Yes(()), |_| Seen::NotYet("it is there".to_owned())))
                })
                .await?;
            let (status, said) = other.report(world, &full).await?;
            ensure!(status == 404 || status == 403, "{said}");
            Ok(())
        })
        .await
}
