//! Running a vendor's tool, as root, without trusting it.
//!
//! A tool is named by its absolute path below the host's root, must belong to root or to us and must not be writable
//! by others. It gets an environment of two variables at most, no input, a limit of time and of output. Its whole process
//! group is killed when the time is up.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;

use crate::host::{Host, HostError};

/// How much output is taken.
pub const OUTPUT: usize = 1024 * 1024;

/// How often a program that is being written is tried again.
const BUSY: usize = 50;

/// How much of the error output is shown.
const SHOWN: usize = 512;

/// Where programs of a node find their libraries, when the node is not the machine itself: the loader looks below
/// its own root only.
const LIBRARIES: [&str; 3] =
    ["/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];

/// A tool of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    path: String,
    /// Directories of the node; none: where the node has its libraries.
    libraries: Vec<String>,
}

/// Runs tools of one host.
#[derive(Clone, Debug)]
pub struct Tools {
    host: Host,
    limit: Duration,
    slots: Arc<Semaphore>,
    env: Vec<(String, String)>,
}

/// Why a tool said nothing that can be used.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It is not on this node.
    #[error("{0} is not there")]
    Absent(String),
    /// Somebody else could have changed it.
    #[error("{path} is not run: {why}")]
    Untrusted {
        /// The tool's path on the host.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It could not be started or read.
    #[error("{path}: {error}")]
    Io {
        /// The tool's path on the host.
        path: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// It took too long and was killed.
    #[error("{call} gave no answer within {limit:?}")]
    TimedOut {
        /// The tool and its arguments.
        call: String,
        /// How long it had.
        limit: Duration,
    },
    /// It wrote too much and was killed.
    #[error("{call} wrote more than {OUTPUT} bytes")]
    TooMuch {
        /// The tool and its arguments.
        call: String,
    },
    /// It said no.
    #[error("{call}: {status}: {said}")]
    Failed {
        /// The tool and its arguments.
        call: String,
        /// How it ended.
        status: ExitStatus,
        /// What it wrote.
        said: String,
    },
}

// === impl ToolError ===

impl ToolError {
    /// One word for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Absent(_) => "tool-absent",
            Self::Untrusted { .. } => "tool-untrusted",
            Self::Io { .. } => "tool-io",
            Self::TimedOut { .. } => "tool-hangs",
            Self::TooMuch { .. } => "tool-output-too-large",
            Self::Failed { .. } => "tool-failed",
        }
    }
}

// === impl Tool ===

impl Tool {
    /// The tool at this path of the node.
    pub fn at(path: impl Into<String>) -> Self {
        Self { path: path.into(), libraries: Vec::new() }
    }

    /// The same with its libraries in these directories of the node.
    #[must_use]
    pub fn libraries(mut self, folders: impl IntoIterator<Item = String>) -> Self {
        self.libraries.extend(folders);
        self
    }
}

// === impl Tools ===

impl Tools {
    /// Tools of this host; each call may take `limit`, and `at_once` run at the same time.
    pub fn new(host: Host, limit: Duration, at_once: usize) -> Self {
        Self { host, limit, slots: Arc::new(Semaphore::new(at_once.max(1))), env: Vec::new() }
    }

    /// The same with a variable in the tools' environment, for tests: nothing is inherited.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The first of these paths that is on the host.
    pub fn find(&self, paths: &[&str]) -> Option<String> {
        paths.iter().find(|path| self.host.resolve(path).is_ok()).map(|path| (*path).to_owned())
    }

    /// What the tool at this path of the node writes, as text.
    pub async fn run(&self, path: &str, args: &[&str]) -> Result<String, ToolError> {
        self.call(&Tool::at(path), args).await
    }

    /// What the tool writes, as text.
    pub async fn call(&self, tool: &Tool, args: &[&str]) -> Result<String, ToolError> {
        let path = tool.path.as_str();
        let program = self.trusted(path)?;
        let call = || format!("{path} {}", args.join(" "));
        let io = |error| ToolError::Io { path: path.to_owned(), error };
        // A closed semaphore cannot be: nobody closes it.
        let _slot = self.slots.acquire().await.map_err(|error| io(std::io::Error::other(error)))?;
        let mut command = Command::new(&program);
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .envs(self.libraries(tool).map(|folders| ("LD_LIBRARY_PATH", folders)))
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = start(&mut command).await.map_err(io)?;
        let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw));
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let ended = tokio::time::timeout(self.limit, async {
            let out = async {
                let out = read(out, OUTPUT).await.map_err(io)?;
                match out.len() > OUTPUT {
                    true => Err(ToolError::TooMuch { call: call() }),
                    false => Ok(out),
                }
            };
            let (out, err) = tokio::try_join!(out, async { Ok(read_all(err, SHOWN).await) })?;
            Ok((out, err, child.wait().await.map_err(io)?))
        });
        let (out, err, status) = match ended.await {
            Ok(ended) => ended?,
            Err(_) => return Err(ToolError::TimedOut { call: call(), limit: self.limit }),
        };
        group.ended();
        if !status.success() {
            // Some tools say on their output what is wrong.
            let said = [err, out].iter().map(|bytes| shown(bytes)).find(|said| !said.is_empty());
            return Err(ToolError::Failed { call: call(), status, said: said.unwrap_or_default() });
        }
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    /// Where the loader shall look for the tool's libraries: real directories of the node that nobody else can have
    /// written to. None: the loader knows.
    fn libraries(&self, tool: &Tool) -> Option<String> {
        let folders: Vec<&str> = match tool.libraries.as_slice() {
            [] if self.host.is_machine() => Vec::new(),
            [] => LIBRARIES.to_vec(),
            own => own.iter().map(String::as_str).collect(),
        };
        let real = folders.into_iter().filter_map(|folder| {
            let folder = self.host.path(self.host.resolve(folder).ok()?.to_str()?);
            let found = std::fs::symlink_metadata(&folder).ok()?;
            // The loader would take these signs for something else.
            let plain = |folder: &String| !folder.contains([':', ';', '$']);
            let folder = folder.to_str().map(str::to_owned).filter(plain)?;
            (found.is_dir() && belongs_to_us(&found) && !is_shared(&found)).then_some(folder)
        });
        let real: Vec<String> = real.collect();
        (!real.is_empty()).then(|| real.join(":"))
    }

    /// The file to run, if nobody but root and we can have written it, or put it or a directory above it in its place.
    pub fn trusted(&self, path: &str) -> Result<PathBuf, ToolError> {
        let resolved = match self.host.resolve(path) {
            Ok(resolved) => resolved,
            Err(HostError::Io { error, .. }) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(ToolError::Io { path: path.to_owned(), error });
            }
            Err(_) => return Err(ToolError::Absent(path.to_owned())),
        };
        let program = self.host.path(&resolved.to_string_lossy());
        let untrusted = |why| ToolError::Untrusted { path: path.to_owned(), why };
        for (level, place) in resolved.ancestors().enumerate() {
            let place = self.host.path(&place.to_string_lossy());
            let found = std::fs::symlink_metadata(place)
                .map_err(|error| ToolError::Io { path: path.to_owned(), error })?;
            match (level, belongs_to_us(&found), is_shared(&found)) {
                (_, true, false) => {}
                (0, false, _) => return Err(untrusted("it belongs to somebody else")),
                (0, true, true) => return Err(untrusted("others may write to it")),
                (_, false, _) => {
                    return Err(untrusted("a directory above it belongs to somebody else"));
                }
                (_, true, true) => {
                    return Err(untrusted("others may write to a directory above it"));
                }
            }
        }
        Ok(program)
    }
}

fn belongs_to_us(found: &Metadata) -> bool {
    found.uid() == 0 || found.uid() == nix::unistd::geteuid().as_raw()
}

fn is_shared(found: &Metadata) -> bool {
    found.mode() & 0o022 != 0
}

/// Starts a program. One that is being written, as in an update of the driver, is busy for a moment.
async fn start(command: &mut Command) -> std::io::Result<Child> {
    for _ in 0..BUSY {
        match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            started => return started,
        }
    }
    command.spawn()
}

/// A process group that is killed unless it has ended.
struct Group(Option<Pid>);

impl Group {
    fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended by itself just now.
            let _gone = killpg(group, Signal::SIGKILL);
        }
    }
}

/// Reads one byte more than `most` at most. What is left in the pipe does not matter: the tool is killed then.
async fn read(pipe: Option<impl AsyncRead + Unpin>, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(most as u64 + 1).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// Keeps the first `most` bytes and reads to the end: a tool that cannot write dies of it.
async fn read_all(pipe: Option<impl AsyncRead + Unpin>, most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        let kept = (&mut pipe).take(most as u64).read_to_end(&mut bytes).await;
        if kept.is_ok() {
            // What comes is shown to nobody, and so is why it ends.
            let _passed = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
        }
    }
    bytes
}

/// The beginning, as text.
fn shown(bytes: &[u8]) -> String {
    // No character has more than four bytes.
    let bytes = bytes.get(..4 * SHOWN).unwrap_or(bytes);
    String::from_utf8_lossy(bytes).trim().chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn tool(script: &str) -> (tempfile::TempDir, Tools) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tool");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let tools = Tools::new(Host::at(folder.path()), Duration::from_secs(20), 2);
        (folder, tools)
    }

    #[tokio::test]
    async fn a_tool_gets_its_arguments_and_two_variables_only() {
        let (folder, tools) = tool("echo $1; env | sort | cut -d= -f1 | tr '\\n' ' '");
        fs::create_dir_all(folder.path().join("usr/lib64")).unwrap();
        let said = tools.run("/tool", &["-x"]).await.unwrap();
        assert!(said.starts_with("-x\n"), "{said}");
        let names: Vec<&str> = said.lines().nth(1).unwrap().split_whitespace().collect();
        let own = ["_", "OLDPWD", "PWD", "SHLVL"];
        let names: Vec<&str> = names.into_iter().filter(|name| !own.contains(name)).collect();
        assert_eq!(names, ["LD_LIBRARY_PATH", "PATH"]);
    }

    #[tokio::test]
    async fn a_tool_that_hangs_is_killed_with_its_children() {
        let (folder, mut tools) = tool("sleep 3600 & echo $! > \"$OUT\"; wait");
        let note = folder.path().join("pid");
        tools.limit = Duration::from_millis(300);
        let tools = tools.env("OUT", note.to_str().unwrap());
        let error = tools.run("/tool", &[]).await.unwrap_err();
        assert_eq!(error.reason(), "tool-hangs");
        let child: i32 = fs::read_to_string(note).unwrap().trim().parse().unwrap();
        let gone = || match fs::read_to_string(format!("/proc/{child}/stat")) {
            Ok(stat) => stat.contains(") Z"),
            Err(_) => true,
        };
        for _ in 0..200 {
            if gone() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the tool's child {child} lives");
    }

    #[tokio::test]
    async fn a_tool_that_talks_too_much_or_fails_says_so() {
        let (_folder, tools) = tool("if [ $1 = 1 ]; then echo no >&2; exit 3; fi; exec yes");
        let error = tools.run("/tool", &["1"]).await.unwrap_err();
        assert_eq!((error.reason(), error.to_string().contains("no")), ("tool-failed", true));
        assert_eq!(tools.run("/tool", &["2"]).await.unwrap_err().reason(), "tool-output-too-large");
        assert_eq!(tools.run("/none", &[]).await.unwrap_err().reason(), "tool-absent");
    }

    #[tokio::test]
    async fn a_tool_that_complains_at_length_is_heard_to_the_end() {
        // Far more than a pipe holds, before the answer.
        let (_folder, tools) = tool(
            "head -c 1000000 /dev/zero | tr '\\0' e >&2 && echo complete || echo cut; exit $1",
        );
        assert_eq!(tools.run("/tool", &["0"]).await.unwrap(), "complete\n");
        let ToolError::Failed { status, said, .. } = tools.run("/tool", &["3"]).await.unwrap_err()
        else {
            panic!("it failed");
        };
        assert_eq!((status.code(), said), (Some(3), "e".repeat(SHOWN)));
    }

    #[tokio::test]
    async fn a_tool_that_fails_may_say_why_on_its_output() {
        let (_folder, tools) =
            tool("head -c 2000 /dev/zero | tr '\\0' o; [ $1 = 1 ] && echo err >&2; exit 9");
        for (arg, expected) in [("0", "o".repeat(SHOWN)), ("1", "err".to_owned())] {
            let ToolError::Failed { said, .. } = tools.run("/tool", &[arg]).await.unwrap_err()
            else {
                panic!("it failed");
            };
            assert_eq!(said, expected);
        }
    }

    #[tokio::test]
    async fn a_tool_finds_its_libraries_below_the_root() {
        let (folder, tools) = tool("echo \"${LD_LIBRARY_PATH-none}\"");
        let root = folder.path().canonicalize().unwrap();
        assert_eq!(tools.run("/tool", &[]).await.unwrap(), "none\n", "nothing is there");
        for made in ["usr/lib64", "usr/lib/aarch64-linux-gnu", "opt/a", "opt/b", "opt/c:d"] {
            fs::create_dir_all(folder.path().join(made)).unwrap();
        }
        std::os::unix::fs::symlink("/opt/a", folder.path().join("link")).unwrap();
        fs::set_permissions(root.join("opt/b"), fs::Permissions::from_mode(0o777)).unwrap();
        let tools = Tools::new(Host::at(&root), Duration::from_secs(20), 2);
        let below = |folders: &[&str]| {
            let folders = folders.iter().map(|folder| root.join(folder).display().to_string());
            folders.collect::<Vec<_>>().join(":") + "\n"
        };
        let said = tools.run("/tool", &[]).await.unwrap();
        assert_eq!(said, below(&["usr/lib64", "usr/lib/aarch64-linux-gnu"]));
        // Links stay in the tree; what others may write, is absent or would be read as two is left out.
        for (own, expected) in [
            (vec!["/opt/a"], below(&["opt/a"])),
            (vec!["/link", "/opt/b", "/opt/c:d", "/none", "/tool"], below(&["opt/a"])),
            (vec!["/none"], "none\n".to_owned()),
        ] {
            let tool = Tool::at("/tool").libraries(own.iter().map(|folder| (*folder).to_owned()));
            assert_eq!(tools.call(&tool, &[]).await.unwrap(), expected, "{own:?}");
        }
    }

    #[test]
    fn the_machine_itself_finds_its_libraries_alone() {
        let tools = Tools::new(Host::at("/"), Duration::from_secs(1), 1);
        assert_eq!(tools.libraries(&Tool::at("/usr/bin/nvidia-smi")), None);
        let own = Tool::at("/tool").libraries(["/usr".to_owned()]);
        assert_eq!(tools.libraries(&own).as_deref(), Some("/usr"));
    }

    #[tokio::test]
    async fn a_tool_that_others_can_write_is_not_run() {
        let (folder, tools) = tool("echo run");
        let path = folder.path().join("tool");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o757)).unwrap();
        assert_eq!(tools.run("/tool", &[]).await.unwrap_err().reason(), "tool-untrusted");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(tools.run("/tool", &[]).await.unwrap_err().reason(), "tool-untrusted");
    }

    #[tokio::test]
    async fn a_tool_below_a_directory_that_others_can_write_is_not_run() {
        let (folder, tools) = tool("echo run");
        let (vendor, bin) = (folder.path().join("vendor"), folder.path().join("vendor/bin"));
        fs::create_dir_all(&bin).unwrap();
        fs::rename(folder.path().join("tool"), bin.join("tool")).unwrap();
        for place in [folder.path(), vendor.as_path(), bin.as_path()] {
            fs::set_permissions(place, fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!(tools.run("/vendor/bin/tool", &[]).await.unwrap(), "run\n");
        // Whoever may write there could put another directory in its place.
        fs::set_permissions(&vendor, fs::Permissions::from_mode(0o777)).unwrap();
        let refused = tools.run("/vendor/bin/tool", &[]).await.unwrap_err();
        assert_eq!(refused.reason(), "tool-untrusted");
        assert!(refused.to_string().contains("a directory above it"), "{refused}");
    }
}
