//! `muster-agent discover`: prints what is on a machine.

use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use muster_proto::device::Vendor;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{DiscoverArgs, HostArgs, Output};
use crate::discover::{self, Found, matrix};
use crate::host::Host;
use crate::tool::Tools;

/// No line about a problem is longer.
const LONGEST_LINE: usize = 1000;

// === impl HostArgs ===

impl HostArgs {
    /// As the settings of discovery.
    pub fn settings(&self) -> anyhow::Result<discover::DiscoverySettings> {
        let root = self.sysroot.canonicalize();
        let root = root.with_context(|| format!("--sysroot {}", self.sysroot.display()))?;
        anyhow::ensure!(root.is_dir(), "--sysroot {}: not a directory", self.sysroot.display());
        let host = Host::at(root);
        let tools = Tools::new(host.clone(), self.tool_timeout, 16);
        let tools = (!self.no_tools).then_some(tools);
        Ok(discover::DiscoverySettings { tools, ..discover::DiscoverySettings::new(host) })
    }
}

/// Looks once and prints.
pub fn main(args: DiscoverArgs) -> anyhow::Result<()> {
    let DiscoverArgs { host, output } = args;
    let settings = host.settings()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        // What is dropped takes the tools that it runs along.
        tokio::select! {
            found = discover::once(&settings) => Ok(found),
            _ = interrupt.recv() => Err(anyhow::anyhow!("interrupted")),
            _ = terminate.recv() => Err(anyhow::anyhow!("told to end")),
        }
    })?;
    runtime.shutdown_timeout(Duration::from_millis(100));
    let text = match output {
        Output::Json => serde_json::to_string_pretty(&found.inventory)? + "\n",
        Output::Table => tables(&found),
    };
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // `| head` has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        other => other?,
    }
    let mut problems = String::new();
    for (area, findings) in &found.findings {
        for finding in findings {
            let line =
                format!("{area}: {}: {} [{}]", finding.subject, finding.message, finding.reason);
            problems.push_str(&matrix::plain(&line, LONGEST_LINE));
            problems.push('\n');
        }
    }
    // What is wrong goes to stderr, so that JSON stays JSON.
    let _unheard = std::io::stderr().lock().write_all(problems.as_bytes());
    Ok(())
}

fn tables(found: &Found) -> String {
    let inventory = &found.inventory;
    if inventory.devices.is_empty() && inventory.nics.is_empty() {
        return "no Ascend or NVIDIA devices, and no RDMA network cards\n".to_owned();
    }
    let mut text = String::new();
    for driver in &inventory.drivers {
        let vendor = match driver.vendor {
            Vendor::Ascend => "Ascend",
            Vendor::Nvidia => "NVIDIA",
        };
        text.push_str(&format!("{vendor} driver {}\n", driver.version));
    }
    if let Some(place) = inventory.super_pod {
        text.push_str(&format!("super-pod {}, server {}\n", place.id, place.server_index));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    format!("{text}{}\n{}", matrix::table(inventory), matrix::matrix(inventory))
}
