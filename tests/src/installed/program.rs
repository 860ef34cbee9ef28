//! A program of ours as a process, which is started again when it ends: what the kubelet does for a pod.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::world::{Seen, until};

/// How long a program may take to end when it is told to.
const GRACE: Duration = Duration::from_secs(10);
/// Between an end and the next start.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a program may take until it is ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// What to start.
#[derive(Clone, Debug)]
pub struct Order {
    /// What it is called in messages and logs.
    pub name: String,
    /// The program's file.
    pub program: PathBuf,
    /// The program's flags.
    pub flags: Vec<OsString>,
    /// How it finds the API server.
    pub kubeconfig: PathBuf,
    /// Where its status page is.
    pub page: std::net::SocketAddr,
    /// Where it logs.
    pub log: PathBuf,
}

/// A program that runs.
#[derive(Debug)]
pub struct Program {
    order: Arc<Order>,
    stop: CancellationToken,
    killed: Arc<Notify>,
    crashes: Arc<AtomicUsize>,
    keeper: JoinHandle<()>,
}

// === impl Order ===

impl Order {
    fn spawn(&self) -> anyhow::Result<Child> {
        let log = std::fs::File::options().create(true).append(true).open(&self.log)?;
        Command::new(&self.program)
            .args(&self.flags)
            .env_clear()
            .env("KUBECONFIG", &self.kubeconfig)
            .envs(std::env::var_os("MUSTER_LOG").map(|filter| ("MUSTER_LOG", filter)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} cannot be started", self.program.display()))
    }
}

// === impl Program ===

impl Program {
    /// Starts it, and keeps it running.
    pub fn start(order: Order) -> anyhow::Result<Self> {
        let order = Arc::new(order);
        let (stop, killed) = (CancellationToken::new(), Arc::new(Notify::new()));
        let crashes = Arc::new(AtomicUsize::new(0));
        let first = order.spawn()?;
        let keeper =
            tokio::spawn(keep(order.clone(), first, stop.clone(), killed.clone(), crashes.clone()));
        Ok(Self { order, stop, killed, crashes, keeper })
    }

    /// Waits until it says that it is ready.
    pub async fn ready(&self) -> anyhow::Result<()> {
        let page = self.order.page;
        let what = format!("{} is ready", self.order.name);
        let ready = until(&what, PATIENCE, async || {
            let (status, said) = fetch(page, "/readyz").await?;
            Ok(if status == 200 { Seen::Yes(()) } else { Seen::NotYet(said) })
        });
        ready.await.with_context(|| format!("its log ends:\n{}", tail(&self.order.log)))
    }

    /// Ends it as `kill -9` does; it is started again.
    pub fn kill(&self) {
        self.killed.notify_one();
    }

    /// How often it has ended by itself.
    pub fn crashes(&self) -> usize {
        self.crashes.load(Ordering::Relaxed)
    }

    /// Ends the program and waits for it.
    pub async fn stop(self) {
        self.stop.cancel();
        // A task that panicked has dropped its child, and so killed it.
        let _ended = self.keeper.await;
    }
}

async fn keep(
    order: Arc<Order>,
    mut child: Child,
    stop: CancellationToken,
    killed: Arc<Notify>,
    crashes: Arc<AtomicUsize>,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return end(&mut child).await,
            () = killed.notified() => {
                let _gone = child.kill().await;
                eprintln!("muster-world: {} was killed", order.name);
            }
            status = child.wait() => {
                crashes.fetch_add(1, Ordering::Relaxed);
                let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                eprintln!("muster-world: {} ended by itself ({status}); its log is {}", order.name, order.log.display());
            }
        }
        child = loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
            match order.spawn() {
                Ok(child) => break child,
                Err(error) => eprintln!("muster-world: {error:#}"),
            }
        };
    }
}

/// Ends a process as the kubelet does: politely, then by force.
async fn end(child: &mut Child) {
    if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
        let _gone = kill(Pid::from_raw(pid), Signal::SIGTERM);
    }
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        let _gone = child.kill().await;
    }
}

async fn fetch(page: std::net::SocketAddr, path: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect(page).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {page}\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, body.to_owned()))
}

/// The last lines of a file.
fn tail(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
