//! The node as a directory tree.
//!
//! Every path of discovery is taken below [`Host::root`]. `/` is the machine itself; anything else is a mount of it
//! in a container, a simulated node, or the files of somebody's bug report.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

/// How much of one file is read unless the caller says otherwise.
pub const SMALL: usize = 64 * 1024;

/// How many entries of one directory are looked at.
pub const ENTRIES: usize = 8192;

/// How many symbolic links one path may have.
const LINKS: usize = 40;

/// A node's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    root: PathBuf,
}

/// Why a file of the node is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The system said no.
    #[error("{path}: {error}")]
    Io {
        /// The file, as on the node.
        path: String,
        /// What the system said.
        error: io::Error,
    },
    /// It has more bytes than are read.
    #[error("{path} is larger than {limit} bytes")]
    TooLarge {
        /// The file, as on the node.
        path: String,
        /// How many are read.
        limit: usize,
    },
    /// It is a directory, a pipe or a device.
    #[error("{path} is not a regular file")]
    NotRegular {
        /// The file, as on the node.
        path: String,
    },
}

// === impl HostError ===

impl HostError {
    /// Whether the file is simply not there.
    pub fn is_absent(&self) -> bool {
        let absent = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        matches!(self, Self::Io { error, .. } if absent.contains(&error.kind()))
    }

    /// One word for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Io { error, .. } if error.kind() == io::ErrorKind::PermissionDenied => {
                "unreadable"
            }
            Self::Io { .. } => "io",
            Self::TooLarge { .. } => "too-large",
            Self::NotRegular { .. } => "not-regular",
        }
    }
}

// === impl Host ===

impl Host {
    /// The node below this directory.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directory below which all paths are.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether it is the machine itself.
    pub fn is_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    /// A path of the node as a path of this process. Symbolic links in it are not looked at; for files that
    /// may be links use [`Host::resolve`].
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The real place of a path of the node, with its symbolic links followed *within* the tree: a link to
    /// `/etc` is a link to the tree's `/etc`. The answer is a path of the node, beginning with `/`.
    pub fn resolve(&self, path: &str) -> Result<PathBuf, HostError> {
        let mut left: Vec<PathBuf> = vec![PathBuf::from(path)];
        let mut done = PathBuf::from("/");
        let mut links = 0;
        while let Some(part) = left.pop() {
            let mut parts = part.components();
            let Some(first) = parts.next() else { continue };
            let rest = parts.as_path();
            if !rest.as_os_str().is_empty() {
                left.push(rest.to_owned());
            }
            match first {
                Component::RootDir | Component::Prefix(_) => done = PathBuf::from("/"),
                Component::CurDir => {}
                Component::ParentDir => {
                    done.pop();
                }
                Component::Normal(name) => {
                    done.push(name);
                    let here = self.below(&done);
                    let io = |error| HostError::Io { path: done.display().to_string(), error };
                    if fs::symlink_metadata(&here).map_err(io)?.file_type().is_symlink() {
                        links += 1;
                        if links > LINKS {
                            return Err(io(io::Error::other("too many symbolic links")));
                        }
                        let target = fs::read_link(&here).map_err(io)?;
                        done.pop();
                        left.push(target);
                    }
                }
            }
        }
        Ok(done)
    }

    fn below(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A text file, of at most `limit` bytes. Bytes that are no text become U+FFFD.
    pub fn read_at_most(&self, path: &str, limit: usize) -> Result<String, HostError> {
        let io = |error| HostError::Io { path: path.to_owned(), error };
        let place = self.below(&self.resolve(path)?);
        // A pipe would block when it is opened: look first. Nobody but root can swap it in between.
        let kind = fs::symlink_metadata(&place).map_err(io)?.file_type();
        if !kind.is_file() {
            return Err(HostError::NotRegular { path: path.to_owned() });
        }
        let mut bytes = Vec::new();
        let file = File::open(place).map_err(io)?;
        file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() > limit {
            return Err(HostError::TooLarge { path: path.to_owned(), limit });
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A small text file without white space around it.
    pub fn read(&self, path: &str) -> Result<String, HostError> {
        Ok(self.read_at_most(path, SMALL)?.trim().to_owned())
    }

    /// The names in a directory, sorted; none when it is not there.
    pub fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        let io = |error| HostError::Io { path: path.to_owned(), error };
        let listed = match self.resolve(path) {
            Ok(place) => fs::read_dir(self.below(&place)).map_err(io),
            Err(error) => Err(error),
        };
        let entries = match listed {
            Err(error) if error.is_absent() => return Ok(Vec::new()),
            other => other?,
        };
        let mut names = Vec::new();
        for entry in entries.take(ENTRIES) {
            // A name that is no text is none of ours.
            if let Ok(name) = entry.map_err(io)?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Whether the path is a device file: a character device. In a tree that is not the machine itself a regular
    /// file stands for one, since only root can make device files.
    pub fn is_device(&self, path: &str) -> bool {
        let kind = fs::symlink_metadata(self.path(path)).map(|found| found.file_type());
        kind.is_ok_and(|kind| kind.is_char_device() || (kind.is_file() && !self.is_machine()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> (tempfile::TempDir, Host) {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::at(folder.path());
        fs::create_dir_all(folder.path().join("etc")).unwrap();
        fs::write(folder.path().join("etc/hostname"), "node\n").unwrap();
        (folder, host)
    }

    #[test]
    fn a_link_out_of_the_tree_stays_in_the_tree() {
        let (folder, host) = tree();
        symlink("/etc/hostname", folder.path().join("absolute")).unwrap();
        symlink("../../../../etc/hostname", folder.path().join("etc/relative")).unwrap();
        for path in ["absolute", "/etc/relative"] {
            assert_eq!(host.read(path).unwrap(), "node");
            assert_eq!(host.resolve(path).unwrap(), Path::new("/etc/hostname"));
        }
    }

    #[test]
    fn a_loop_of_links_ends() {
        let (folder, host) = tree();
        symlink("b", folder.path().join("a")).unwrap();
        symlink("a", folder.path().join("b")).unwrap();
        assert!(host.read("a").unwrap_err().to_string().contains("too many"));
    }

    #[test]
    fn large_files_pipes_and_directories_are_refused() {
        let (folder, host) = tree();
        fs::write(folder.path().join("big"), vec![b'x'; SMALL + 1]).unwrap();
        nix::unistd::mkfifo(&folder.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(matches!(host.read("big"), Err(HostError::TooLarge { .. })));
        assert!(matches!(host.read("pipe"), Err(HostError::NotRegular { .. })));
        assert!(matches!(host.read("etc"), Err(HostError::NotRegular { .. })));
        assert!(host.read("none").unwrap_err().is_absent());
        assert!(host.read("etc/hostname/x").unwrap_err().is_absent());
        assert_eq!(host.list("none").unwrap(), Vec::<String>::new());
    }
}
