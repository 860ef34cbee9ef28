//! A container as a process on the host.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

use super::super::lifecycle::list;
use super::super::names;
use super::super::volumes::pod_directory;
use super::ContainerContext;
use crate::kubelet::environment::expand;
use crate::kubelet::logs::LogSink;

#[cfg(test)]
mod tests;

/// A longer line is cut into several.
const LONGEST_LINE: usize = 16 * 1024;

/// How long the pipes of a process that has ended are read: a child that left its group may keep them.
const REST: Duration = Duration::from_millis(500);

/// The command line of a container, with references to its environment still in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    words: Vec<String>,
}

/// The processes of a container; dropping it kills them.
struct Group(Option<Pid>);

// === impl Command ===

impl Command {
    /// The command of a container: `command`, then `args`. An image's own entry point is not known here.
    pub fn of(container: &Value) -> Option<Self> {
        let words: Vec<String> = ["command", "args"]
            .iter()
            .flat_map(|field| list(container, field))
            .filter_map(|word| word.as_str().map(str::to_owned))
            .collect();
        (!words.is_empty()).then_some(Self { words })
    }

    /// Runs it to its end. Dropping the future kills it and its children.
    pub(super) async fn run(self, context: ContainerContext) -> i32 {
        match self.start(&context).await {
            Ok(code) => code,
            Err(error) => {
                context.log.line(format!("cannot run {:?}: {error}", self.words));
                names::EXIT_NOT_FOUND
            }
        }
    }

    async fn start(&self, context: &ContainerContext) -> std::io::Result<i32> {
        let rootfs = root_file_system(context)?;
        let words: Vec<String> = self.words.iter().map(|w| expand(w, &context.env)).collect();
        let (program, arguments) = words.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
        let mut child = tokio::process::Command::new(program)
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(&context.env)
            .env(names::ENV_ROOTFS, &rootfs)
            .current_dir(&rootfs)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
        let group = Group(pid);
        let lines = [
            child.stdout.take().map(|out| copy(Box::new(out), context.log.clone())),
            child.stderr.take().map(|out| copy(Box::new(out), context.log.clone())),
        ];
        let mut told = false;
        let status = loop {
            tokio::select! {
                status = child.wait() => break status?,
                () = context.stop.cancelled(), if !told => {
                    told = true;
                    if let Some(pid) = pid {
                        // As in a container, only the first process is told. It may have ended by itself; then there is nobody to tell.
                        let _told = kill(pid, Signal::SIGTERM);
                    }
                }
            }
        };
        // A container ends with its first process.
        drop(group);
        for mut line in lines.into_iter().flatten() {
            // The reader ends with the pipe; its lines belong before the exit.
            if tokio::time::timeout(REST, &mut line).await.is_err() {
                line.abort();
            }
        }
        use std::os::unix::process::ExitStatusExt;
        Ok(status.code().or_else(|| status.signal().map(|s| 128 + s)).unwrap_or(-1))
    }
}

// === impl Group ===

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0.take() {
            // All may have ended by themselves.
            let _killed = killpg(leader, Signal::SIGKILL);
        }
    }
}

fn copy(out: Box<dyn AsyncRead + Unpin + Send>, log: LogSink) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let mut out = BufReader::new(out);
        let (mut bytes, mut cut) = (Vec::new(), false);
        loop {
            bytes.clear();
            let mut line = (&mut out).take(LONGEST_LINE as u64);
            match line.read_until(b'\n', &mut bytes).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let ended = bytes.ends_with(b"\n");
            let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            // The newline alone of a line that was cut just before it is no line.
            if !(cut && text.is_empty()) {
                log.line(String::from_utf8_lossy(text));
            }
            cut = !ended;
        }
    })
}

/// A directory in which the container's mounts are links to its volumes.
fn root_file_system(context: &ContainerContext) -> std::io::Result<PathBuf> {
    let uid = muster_objects::meta::uid(&context.pod);
    let pod = pod_directory(&context.root, uid);
    let rootfs =
        std::path::absolute(pod.join("containers").join(&context.container).join("rootfs"))?;
    std::fs::create_dir_all(&rootfs)?;
    for (mount, at) in &context.mounts {
        let relative = Path::new(mount.trim_start_matches('/'));
        let safe = relative.components().all(|c| matches!(c, std::path::Component::Normal(_)));
        if !safe || relative.as_os_str().is_empty() {
            continue;
        }
        let link = rootfs.join(relative);
        if let Some(parent) = link.parent() {
            std::fs::create_dir_all(parent)?;
        }
        match symlink(std::path::absolute(at)?, &link) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(rootfs)
}
