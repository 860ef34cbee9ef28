//! Containers that do real work: closures of a test, and processes on the host.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::logs::LogSink;
use super::names;
use crate::clock::Clock;

mod process;

pub use process::Command;

/// Which containers are closures.
#[derive(Clone, Default)]
pub struct Containers {
    rules: Vec<(Matches, ContainerFn)>,
}

type Matches = Arc<dyn Fn(&Value, &str) -> bool + Send + Sync>;
type ContainerFn =
    Arc<dyn Fn(ContainerContext) -> Pin<Box<dyn Future<Output = i32> + Send>> + Send + Sync>;

/// What a container has around it.
#[derive(Clone, Debug)]
pub struct ContainerContext {
    /// The pod, as it was when the container started.
    pub pod: Arc<Value>,
    /// The container's name.
    pub container: String,
    /// The node's name.
    pub node: String,
    /// The directory that stands for `/` of the node.
    pub root: PathBuf,
    /// Directories of the pod's volumes by volume name; empty on a node without files.
    pub volumes: BTreeMap<String, PathBuf>,
    /// Where the container sees them: mount path and directory on the host.
    pub mounts: Vec<(String, PathBuf)>,
    /// Device ids by resource.
    pub devices: BTreeMap<String, Vec<String>>,
    /// The container's environment variables.
    pub env: BTreeMap<String, String>,
    /// Cancelled when the container shall end; some time later it is dropped.
    pub stop: CancellationToken,
    /// What `kubectl logs` shows.
    pub log: LogSink,
}

/// What to start for a container.
#[derive(Clone)]
pub(super) enum Program {
    Closure(ContainerFn),
    Process(Command),
}

/// A started container. Dropping it does not end the container.
#[derive(Debug, Default)]
pub(super) struct Started {
    kill_at: watch::Sender<Option<Timestamp>>,
}

// === impl Containers ===

impl Containers {
    /// Runs `body` for the containers for which `matches(pod, container)` holds; the first rule wins.
    pub fn on<F>(
        mut self,
        matches: impl Fn(&Value, &str) -> bool + Send + Sync + 'static,
        body: impl Fn(ContainerContext) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = i32> + Send + 'static,
    {
        self.rules.push((Arc::new(matches), Arc::new(move |context| Box::pin(body(context)))));
        self
    }

    /// Runs `body` for the containers of this image.
    pub fn image<F>(
        self,
        image: &str,
        body: impl Fn(ContainerContext) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = i32> + Send + 'static,
    {
        let image = image.to_owned();
        self.on(move |pod, container| image_of(pod, container) == Some(&image), body)
    }

    pub(super) fn find(&self, pod: &Value, container: &str) -> Option<Program> {
        let rule = self.rules.iter().find(|(matches, _)| matches(pod, container));
        rule.map(|(_, body)| Program::Closure(body.clone()))
    }
}

impl std::fmt::Debug for Containers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Containers({} rules)", self.rules.len())
    }
}

// === impl ContainerContext ===

impl ContainerContext {
    /// Where a path of the container is on the host: below the mount that holds it.
    pub fn path(&self, inside: &str) -> Option<PathBuf> {
        let below = |mount: &str| Path::new(inside).strip_prefix(mount).ok();
        let found = self.mounts.iter().filter_map(|(mount, at)| Some((mount, at, below(mount)?)));
        let (_, at, rest) = found.max_by_key(|(mount, ..)| mount.len())?;
        Some(if rest.as_os_str().is_empty() { at.clone() } else { at.join(rest) })
    }
}

// === impl Program ===

impl Program {
    /// Starts it; `ended` is called once with its exit code.
    pub fn start(
        self,
        mut context: ContainerContext,
        clock: Clock,
        ended: impl FnOnce(i32) + Send + 'static,
    ) -> Started {
        let stop = CancellationToken::new();
        context.stop = stop.clone();
        let log = context.log.clone();
        let work = match self {
            Self::Closure(body) => tokio::spawn(body(context)),
            Self::Process(command) => tokio::spawn(command.run(context)),
        };
        let (kill_at, mut told) = watch::channel(None);
        tokio::spawn(async move {
            let abort = work.abort_handle();
            let killed = async {
                loop {
                    let at = *told.borrow_and_update();
                    match at {
                        None if told.changed().await.is_err() => std::future::pending().await,
                        None => {}
                        Some(at) => {
                            stop.cancel();
                            tokio::select! {
                                () = clock.sleep_until(at) => return,
                                Ok(()) = told.changed() => {}
                            }
                        }
                    }
                }
            };
            let code = tokio::select! {
                done = work => done.unwrap_or_else(|error| {
                    log.line(format!("container panicked: {error}"));
                    names::EXIT_PANICKED
                }),
                () = killed => {
                    abort.abort();
                    names::EXIT_KILLED
                }
            };
            ended(code);
        });
        Started { kill_at }
    }
}

// === impl Started ===

impl Started {
    /// Tells it to end, and kills it at that time.
    pub fn stop(&self, kill_at: Timestamp) {
        self.kill_at.send_replace(Some(kill_at));
    }
}

fn image_of<'a>(pod: &'a Value, container: &str) -> Option<&'a str> {
    container_spec(pod, container)?.get("image")?.as_str()
}

/// A container of the pod by name.
pub(super) fn container_spec<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    let spec = pod.get("spec")?;
    let all = ["initContainers", "containers"].map(|field| super::lifecycle::list(spec, field));
    all.into_iter().flatten().find(|c| super::lifecycle::text(c, "name") == name)
}
