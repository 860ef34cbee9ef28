//! What the kernel says of a process.

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, SysconfVar, sysconf};

/// What a process has used.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Bytes in memory now.
    pub resident: f64,
    /// The most that it ever had.
    pub peak: f64,
    /// Seconds of CPU, without its children.
    pub cpu: f64,
}

// === impl Usage ===

impl Usage {
    /// Of this process, now.
    pub fn of(pid: u32) -> anyhow::Result<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let kib = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let number =
                line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
            number.with_context(|| format!("{key} of process {pid}"))
        };
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name is in brackets and may contain anything; user and system time are fields 14 and 15.
        let rest = stat.rsplit_once(')').context("stat")?.1;
        let mut fields = rest.split_whitespace().skip(11).map(str::parse::<f64>);
        let ticks =
            fields.next().context("user time")?? + fields.next().context("system time")??;
        let per_second = sysconf(SysconfVar::CLK_TCK)?.context("clock ticks")? as f64;
        Ok(Self {
            resident: kib("VmRSS:")? * 1024.0,
            peak: kib("VmHWM:")? * 1024.0,
            cpu: ticks / per_second,
        })
    }
}

/// Tells a process to end.
pub fn terminate(pid: u32) -> anyhow::Result<()> {
    Ok(kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?)
}
