//! What the node has: sources read, merged, and published when something changed.
//!
//! ```text
//!   directories change, 5 s ──▶ scan_files: files, with what tools said before ──┐
//!   start, 30 s ──────────────▶ scan_all: files, tools, libraries (slow) ────────┴─▶ watch channel, changes only
//! ```
//!
//! The first scan of files is published within milliseconds and is not `settled`: nobody is told addresses that a tool
//! may still correct. From the first full scan on every inventory is settled. When a scan of files sees other devices or
//! another driver than the tools were asked about, the next full scan comes at once.
//!
//! Files are read on a blocking thread, which may hang: the program's only other thread must answer pings and signals.

use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_proto::device::{Device, Driver, HostAddress, Inventory, Link, Nic, SuperPod};
use tokio::sync::watch;

use crate::directories::{Directories, Interest};
use crate::host::Host;
use crate::problem::{Area, Finding, Problems};
use crate::tool::Tools;

pub mod ascend;
pub mod matrix;
mod metrics;
pub mod net;
pub mod nvidia;
pub mod pci;
pub mod rdma;
mod sources;
pub mod topology;

pub use metrics::Metrics;
pub use sources::{Read, Sources};

/// Changes within this time cause one scan.
const TOGETHER: Duration = Duration::from_millis(20);

/// How long reading files may take before it is called a problem.
const FILES_LIMIT: Duration = Duration::from_secs(5);

/// The least time between two scans of a busy directory.
const BETWEEN: Duration = Duration::from_millis(200);

/// How soon tools are asked again at most, when what they were asked about has changed.
const TOOLS_AT_MOST: Duration = Duration::from_secs(1);

/// What one source has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceReport {
    /// The vendor's driver, if it is loaded.
    pub drivers: Vec<Driver>,
    /// The vendor's devices.
    pub devices: Vec<Device>,
    /// RDMA network cards.
    pub nics: Vec<Nic>,
    /// How devices are joined by the vendor's own links and tools' word; PCI distances are filled in later.
    pub links: Vec<Link>,
    /// The node's place in a super-pod.
    pub super_pod: Option<SuperPod>,
    /// Addresses of the host.
    pub addresses: Vec<HostAddress>,
    /// What was wrong.
    pub findings: Vec<Finding>,
}

/// How discovery works.
#[derive(Clone, Debug)]
pub struct DiscoverySettings {
    /// The machine, or a copy of its files.
    pub host: Host,
    /// The vendors' tools; none: files only.
    pub tools: Option<Tools>,
    /// How often files are read though nothing told of a change.
    pub files_every: Duration,
    /// How often tools are asked.
    pub tools_every: Duration,
}

/// What a scan has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// What is there.
    pub inventory: Inventory,
    /// What was wrong, by area; each area is complete.
    pub findings: Vec<(Area, Vec<Finding>)>,
    /// Whether tools should be asked soon: what they were asked about has changed.
    pub due: bool,
}

// === impl DiscoverySettings ===

impl DiscoverySettings {
    /// Of this host, with its tools.
    pub fn new(host: Host) -> Self {
        let tools = Tools::new(host.clone(), Duration::from_secs(10), 16);
        Self {
            host,
            tools: Some(tools),
            files_every: Duration::from_secs(5),
            tools_every: Duration::from_secs(30),
        }
    }
}

/// What in the tree tells that devices came or went, or were configured anew.
fn watched(host: &Host) -> Vec<Interest> {
    vec![
        Interest::entries(host.path("/dev"), &["davinci", "nvidia"]),
        Interest::entries(host.path("/dev/infiniband"), &[]),
        Interest::files(host.path("/etc"), &["hccn.conf", "ascend_install.info"]),
        Interest::files(host.path("/usr/local/Ascend/driver"), &["version.info"]),
    ]
}

/// Scans once, with tools.
pub async fn once(settings: &DiscoverySettings) -> Found {
    let problems = Problems::default();
    let (sources, first) = scan_files(Sources::new(&settings.host), &problems).await;
    let Some((read, _)) = first else { return Found::default() };
    scan_all(sources, read, settings.tools.as_ref(), &problems).await.1.unwrap_or_default()
}

/// Scans again and again until `inventory` is closed, and publishes what changed.
pub async fn follow(
    settings: DiscoverySettings,
    directories: Directories,
    problems: Problems,
    metrics: Metrics,
    inventory: watch::Sender<Arc<Inventory>>,
) {
    let mut changes = directories.subscribe(watched(&settings.host), &problems);
    let mut sources = Sources::new(&settings.host);
    let publish = |found: Found| {
        for (area, findings) in found.findings {
            problems.replace(area, findings);
        }
        metrics.seen(&found.inventory);
        let changed = inventory.send_if_modified(|known| {
            let changed = **known != found.inventory;
            if changed {
                *known = Arc::new(found.inventory);
            }
            changed
        });
        if changed {
            metrics.changes.inc();
            let now = inventory.borrow();
            let (devices, settled) = (now.devices.len(), now.settled);
            let unusable = now.devices.iter().filter(|device| !device.health.usable()).count();
            tracing::info!(devices, unusable, settled, "inventory changed");
        }
    };
    let mut tools_due = tokio::time::Instant::now();
    let mut may_ask = tools_due;
    loop {
        let began = Instant::now();
        let first;
        (sources, first) = scan_files(sources, &problems).await;
        metrics.took("files", began.elapsed());
        let scanned = Instant::now();
        if let Some((read, found)) = first {
            if found.due && settings.tools.is_some() {
                tools_due = tools_due.min(may_ask);
            }
            publish(found);
            if tools_due <= tokio::time::Instant::now() {
                let began = Instant::now();
                let found;
                (sources, found) =
                    scan_all(sources, read, settings.tools.as_ref(), &problems).await;
                metrics.took("tools", began.elapsed());
                found.into_iter().for_each(&publish);
                let now = tokio::time::Instant::now();
                (tools_due, may_ask) = (now + settings.tools_every, now + TOOLS_AT_MOST);
            }
        } else {
            // Not again and again without a pause.
            tools_due = tools_due.max(tokio::time::Instant::now() + TOOLS_AT_MOST);
        }
        tokio::select! {
            () = inventory.closed() => return,
            () = changes.next() => {
                let rested = BETWEEN.saturating_sub(scanned.elapsed());
                tokio::time::sleep(TOGETHER.max(rested)).await;
            }
            () = tokio::time::sleep(settings.files_every) => changes.again(),
            () = tokio::time::sleep_until(tools_due) => {}
        }
    }
}

/// Reads the files: what they say, and that with what tools said before.
async fn scan_files(sources: Sources, problems: &Problems) -> (Sources, Option<(Read, Found)>) {
    let work = |sources: &mut Sources| {
        let read = sources.read(jiff::Timestamp::now());
        let found = sources.scan_files(&read);
        (read, found)
    };
    blocking(sources, problems, FILES_LIMIT, work).await
}

/// Asks the tools about what was read.
async fn scan_all(
    mut sources: Sources,
    read: Read,
    tools: Option<&Tools>,
    problems: &Problems,
) -> (Sources, Option<Found>) {
    let asked = sources.ask(&read, tools, jiff::Timestamp::now()).await;
    blocking(sources, problems, FILES_LIMIT, move |sources| sources.scan_all(&read, asked)).await
}

/// Reads files, on a thread of its own: a sick driver can make a read hang. Nothing comes back when that thread fails;
/// the sources have no memory then.
async fn blocking<T: Send + 'static>(
    mut sources: Sources,
    problems: &Problems,
    limit: Duration,
    work: impl FnOnce(&mut Sources) -> T + Send + 'static,
) -> (Sources, Option<T>) {
    let spare = sources.empty();
    let mut reading = tokio::task::spawn_blocking(move || {
        let read = work(&mut sources);
        (sources, read)
    });
    const SUBJECT: &str = "files of the drivers";
    let read = match tokio::time::timeout(limit, &mut reading).await {
        Ok(read) => read,
        Err(_) => {
            let message = format!(
                "reading /dev, /proc and /sys takes longer than {limit:?}; a driver may hang: see the kernel's log"
            );
            problems.raise(Area::Watch, Finding::new("files-hang", SUBJECT, message));
            reading.await
        }
    };
    problems.clear(Area::Watch, SUBJECT);
    match read {
        Ok((sources, read)) => (sources, Some(read)),
        // The reading thread panicked, or the runtime is ending. Begin anew.
        Err(error) => {
            let message = format!("{error}; discovery begins anew");
            problems.raise(Area::Watch, Finding::new("files-failed", SUBJECT, message));
            (spare, None)
        }
    }
}

#[cfg(test)]
mod tests;
