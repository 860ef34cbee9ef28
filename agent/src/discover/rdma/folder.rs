//! A directory whose real place is known, so that the way to its files is not walked for each of them.
//!
//! Below a port the kernel has files and directories and no links, and only the kernel writes there. A link is not
//! followed all the same: in a tree that is no machine it could lead out of the tree.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use nix::fcntl::OFlag;

use crate::host::{ENTRIES, Host};

/// How much of one file is read; the kernel's files have a page at most.
const PAGE: usize = crate::host::SMALL;

/// A directory of the node; none when it is not there, and then it has no files.
#[derive(Clone, Debug)]
pub(super) struct Folder(Option<PathBuf>);

// === impl Folder ===

impl Folder {
    /// The directory at this path of the node.
    pub fn find(host: &Host, path: &str) -> Self {
        Self(host.resolve(path).ok().map(|place| host.path(&place.to_string_lossy())))
    }

    /// A directory below it.
    pub fn below(&self, path: &str) -> Self {
        let mut place = self.0.clone();
        for name in path.split('/') {
            place = place.map(|place| place.join(name));
            let real = |place: &PathBuf| fs::symlink_metadata(place).is_ok_and(|it| it.is_dir());
            place = place.filter(real);
        }
        Self(place)
    }

    /// A file in it, without white space around it.
    pub fn read(&self, name: &str) -> Option<String> {
        let path = self.0.as_ref()?.join(name);
        // A pipe does not make us wait.
        let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).bits();
        let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::with_capacity(64);
        file.take(PAGE as u64 + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() <= PAGE).then(|| String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// The names in it, in no order.
    pub fn names(&self) -> Vec<String> {
        let entries = self.0.as_ref().and_then(|place| fs::read_dir(place).ok());
        let name =
            |entry: std::io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
        entries.into_iter().flatten().take(ENTRIES).filter_map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_its_own_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("real/deep")).unwrap();
        fs::write(at("real/deep/file"), " text\n").unwrap();
        fs::write(at("real/deep/large"), "x".repeat(PAGE + 1)).unwrap();
        nix::unistd::mkfifo(&at("real/deep/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        symlink("file", at("real/deep/link")).unwrap();
        symlink("deep", at("real/link")).unwrap();
        symlink("/real", at("way")).unwrap();
        let host = Host::at(folder.path());
        let real = Folder::find(&host, "/way");
        let deep = real.below("deep");
        assert_eq!(deep.read("file").as_deref(), Some("text"));
        for name in ["large", "pipe", "link", "none", "."] {
            assert_eq!(deep.read(name), None, "{name}");
        }
        assert_eq!((deep.names().len(), real.below("link").names().len()), (4, 0));
        assert_eq!(real.below("link").read("file"), None);
        assert_eq!(Folder::find(&host, "/none").below("x").read("y"), None);
    }
}
