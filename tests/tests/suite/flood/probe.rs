//! Callers who want something while others shout, and how long they wait for it.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use muster_proto::link::v1::link_client::LinkClient;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use super::attack::Target;

/// The address of those who ask.
const OWN: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// How long they rest after an answer.
const RESTS: Duration = Duration::from_millis(20);

/// Who asks, and for what.
#[derive(Clone)]
pub enum Probe {
    /// The kubelet: whether the program is alive.
    Status(Target),
    /// The API server: what of a pod.
    Admission(Target),
    /// An agent: a stream, each time with the next of its tokens.
    Stream(Target, Arc<Vec<String>>, Arc<AtomicUsize>),
}

/// Somebody who asks again and again, in a thread of its own.
pub struct Probes {
    stop: CancellationToken,
    thread: JoinHandle<Result<Asked>>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Asked {
    took: Vec<Duration>,
    /// Why there was no answer, each time that there was none.
    pub refused: Vec<String>,
}

// === impl Probe ===

impl Probe {
    /// An agent with these tokens.
    pub fn stream(target: Target, tokens: Vec<String>) -> Self {
        Self::Stream(target, Arc::new(tokens), Arc::default())
    }

    /// Asks once, over a connection of its own.
    pub async fn ask(&self, limit: Duration) -> Result<()> {
        let asked = async {
            match self {
                Self::Status(target) => {
                    let text =
                        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
                    let heard = exchange(target, text).await?;
                    ensure!(heard.starts_with("HTTP/1.1 200"), "{heard}");
                }
                Self::Admission(target) => {
                    let review = json!({
                        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                        "request": {
                            "uid": "probe", "operation": "CREATE", "userInfo": {},
                            "kind": {"group": "", "version": "v1", "kind": "Pod"},
                            "resource": {"group": "", "version": "v1", "resource": "pods"},
                            "namespace": "default",
                            "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}},
                        },
                    });
                    let review = review.to_string();
                    let text = format!(
                        "POST /mutate-pods HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                         content-type: application/json\r\ncontent-length: {}\r\n\r\n{review}",
                        review.len()
                    );
                    let heard = exchange(target, &text).await?;
                    ensure!(heard.starts_with("HTTP/1.1 200"), "{heard}");
                    ensure!(heard.contains("\"allowed\":true"), "{heard}");
                }
                Self::Stream(target, tokens, next) => {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let token = tokens.get(number % tokens.len()).context("no token")?;
                    let mut request = tonic::Request::new(futures::stream::pending());
                    request
                        .metadata_mut()
                        .insert("authorization", format!("Bearer {token}").parse()?);
                    let mut client = LinkClient::new(target.channel(OWN).await?);
                    match client.open(request).await {
                        Ok(_) => {}
                        // Its node is known; earlier streams of it have not ended yet.
                        Err(why) if reason(&why) == "too-many-streams" => {}
                        Err(why) => return Err(why.into()),
                    }
                }
            }
            Ok(())
        };
        tokio::time::timeout(limit, asked)
            .await
            .with_context(|| format!("no answer in {limit:?}"))?
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Status(_) => "status",
            Self::Admission(_) => "admission",
            Self::Stream(..) => "hub",
        })
    }
}

/// Why the hub refuses a stream.
fn reason(status: &tonic::Status) -> &str {
    let reason = status.metadata().get("muster-reason");
    reason.and_then(|reason| reason.to_str().ok()).unwrap_or_default()
}

/// What is heard until the connection ends.
async fn exchange(target: &Target, text: &str) -> Result<String> {
    let mut wire = target.connect(OWN).await?;
    wire.write_all(text.as_bytes()).await?;
    let mut heard = Vec::new();
    // The end may come without TLS's own farewell.
    let ended = wire.read_to_end(&mut heard).await;
    ensure!(!heard.is_empty(), "nothing was said: {ended:?}");
    Ok(String::from_utf8_lossy(&heard).into_owned())
}

// === impl Probes ===

impl Probes {
    /// Asks until [`Probes::end`]; each answer may take that long.
    pub fn begin(probe: &Probe, limit: Duration) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, probe) = (CancellationToken::new(), probe.clone());
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async move {
                let mut asked = Asked::default();
                while !stopped.is_cancelled() {
                    let began = Instant::now();
                    match probe.ask(limit).await {
                        Ok(()) => asked.took.push(began.elapsed()),
                        Err(why) => asked.refused.push(format!("{why:#}")),
                    }
                    tokio::time::sleep(RESTS).await;
                }
                Ok(asked)
            })
        });
        Ok(Self { stop, thread })
    }

    /// What came of it.
    pub async fn end(self) -> Result<Asked> {
        self.stop.cancel();
        let joined = tokio::task::spawn_blocking(move || self.thread.join()).await?;
        joined.map_err(|_| anyhow::anyhow!("who asks has panicked"))?
    }
}

// === impl Asked ===

impl Asked {
    /// How often there was an answer.
    pub fn answered(&self) -> usize {
        self.took.len()
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut took = self.took.clone();
        took.sort_unstable();
        let late = took.get(took.len().saturating_sub(1) * 99 / 100).copied().unwrap_or_default();
        let (answered, refused) = (took.len(), self.refused.len());
        write!(f, "{answered} answers, {refused} without one, p99 {late:.1?}")
    }
}
