//! What the node has: sources read, merged, and published when something changed.
//!
//! ```text
//!   directories change, 5 s ──▶ quick: files, with what tools said before ──┐
//!   start, 30 s ──────────────▶ look: files, tools, libraries (slow) ───────┴─▶ watch channel, changes only
//! ```
//!
//! The first quick look is published within milliseconds and is not `settled`: nobody is told addresses that a tool
//! may still correct. From the first whole look on every inventory is settled.

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
pub use sources::Sources;

/// Changes that come together are looked at together.
const TOGETHER: Duration = Duration::from_millis(20);

/// How long reading files may take before it is called a problem.
const FILES_LIMIT: Duration = Duration::from_secs(5);

/// A busy directory is looked at so often at most.
const BETWEEN: Duration = Duration::from_millis(200);

/// What one source has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// Its driver.
    pub drivers: Vec<Driver>,
    /// Its devices.
    pub devices: Vec<Device>,
    /// Network cards.
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
pub struct Settings {
    /// The node.
    pub host: Host,
    /// The vendors' tools; none: files only.
    pub tools: Option<Tools>,
    /// How often files are read though nothing told of a change.
    pub files_every: Duration,
    /// How often tools are asked.
    pub tools_every: Duration,
}

/// What a look has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// What is there.
    pub inventory: Inventory,
    /// What was wrong, by area; each area is complete.
    pub findings: Vec<(Area, Vec<Finding>)>,
}

// === impl Settings ===

impl Settings {
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

/// One whole look.
pub async fn once(settings: &Settings) -> Found {
    Sources::new(&settings.host).look(settings.tools.as_ref()).await
}

/// Looks again and again until `inventory` is closed, and publishes what changed.
pub async fn follow(
    settings: Settings,
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
    loop {
        let began = Instant::now();
        let found;
        (sources, found) = quick(sources, &problems).await;
        metrics.took("files", began.elapsed());
        let read = Instant::now();
        publish(found);
        if tools_due <= tokio::time::Instant::now() {
            let began = Instant::now();
            let found = sources.look(settings.tools.as_ref()).await;
            metrics.took("tools", began.elapsed());
            publish(found);
            tools_due = tokio::time::Instant::now() + settings.tools_every;
        }
        tokio::select! {
            () = inventory.closed() => return,
            () = changes.next() => {
                let rested = BETWEEN.saturating_sub(read.elapsed());
                tokio::time::sleep(TOGETHER.max(rested)).await;
            }
            () = tokio::time::sleep(settings.files_every) => changes.again(),
            () = tokio::time::sleep_until(tools_due) => {}
        }
    }
}

/// Reads the files, on a thread of its own: a sick driver can make a read hang.
async fn quick(sources: Sources, problems: &Problems) -> (Sources, Found) {
    let spare = sources.empty();
    let mut reading = tokio::task::spawn_blocking(move || {
        let found = sources.quick();
        (sources, found)
    });
    const SUBJECT: &str = "files of the drivers";
    let read = match tokio::time::timeout(FILES_LIMIT, &mut reading).await {
        Ok(read) => read,
        Err(_) => {
            let message = format!(
                "reading /dev, /proc and /sys takes longer than {FILES_LIMIT:?}; a driver may hang: see the kernel's log"
            );
            problems.raise(Area::Watch, Finding::new("files-hang", SUBJECT, message));
            reading.await
        }
    };
    problems.clear(Area::Watch, SUBJECT);
    match read {
        Ok(read) => read,
        // The reading thread panicked, or the runtime is ending. Begin anew.
        Err(error) => {
            let message = format!("{error}; discovery begins anew");
            problems.raise(Area::Watch, Finding::new("files-failed", SUBJECT, message));
            (spare, Found::default())
        }
    }
}
