//! The directory of a volume, reached without following anything that a pod may have planted.
//!
//! `<kubelet root>/pods` belongs to root and is trusted, also where root made symbolic links on the way to it. Everything
//! below is opened from there with `openat2`, beneath it and without symbolic links; mounts are passed, because a
//! volume in memory is one. Nothing is ever created on the way: the kubelet makes volumes.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use muster_proto::delivery::Place;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, major, minor};

use super::mounts;
use super::writer::WriteError;
use crate::host::Host;

/// The directory of all emptyDir volumes of a pod.
const EMPTY_DIR: &str = "kubernetes.io~empty-dir";

/// How often a walk is begun anew when the kernel saw a rename beside it.
const ATTEMPTS: usize = 8;

/// How a path is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// By the kernel, at once.
    Openat2,
    /// Step by step, for kernels before 5.6 and filters that do not know `openat2`.
    Steps,
}

/// Where the volumes of this node are.
#[derive(Clone, Debug)]
pub struct Volumes {
    host: Host,
    kubelet: String,
    walk: Walk,
}

/// An open volume.
#[derive(Debug)]
pub struct Volume {
    pods: OwnedFd,
    /// The volume's directory, opened beneath the pod's.
    pub directory: OwnedFd,
    /// What it is.
    pub stat: FileStat,
}

// === impl Volumes ===

impl Volumes {
    /// Below the kubelet's root, `/var/lib/kubelet`, of a host.
    pub fn new(host: Host, kubelet: impl Into<String>) -> Self {
        Self { host, kubelet: kubelet.into(), walk: Walk::Openat2 }
    }

    /// Walks in this way.
    pub fn walking(self, walk: Walk) -> Self {
        Self { walk, ..self }
    }

    /// Opens the directory of a volume. The names must have been checked.
    pub fn open(&self, place: &Place) -> Result<Volume, WriteError> {
        let (pods, real) = self.open_pods()?;
        let directory = self.descend(&pods, place)?;
        let stat = fstat(&directory).map_err(WriteError::system("stat of the volume"))?;
        if let Some(device) = self.mounted(&real, place)
            && device != (major(stat.st_dev), minor(stat.st_dev))
        {
            return Err(WriteError::NotMounted(place.volume.clone()));
        }
        Ok(Volume { pods, directory, stat })
    }

    /// What the node has mounted at the volume, where it is a mount.
    fn mounted(&self, pods: &Path, place: &Place) -> Option<(u64, u64)> {
        let steps = [place.pod_uid.as_str(), "volumes", EMPTY_DIR, place.volume.as_str()];
        let path = steps.iter().fold(pods.to_owned(), |path, step| path.join(step));
        mounts::mounted(&self.host, &path.to_string_lossy())
    }

    /// Whether the path still leads to the directory that is open.
    pub fn check(&self, place: &Place, volume: &Volume) -> Result<(), WriteError> {
        let swapped = |_| WriteError::DirectorySwapped;
        let now = self.descend(&volume.pods, place).and_then(|directory| {
            fstat(&directory).map_err(WriteError::system("stat of the volume"))
        });
        let now = now.map_err(swapped)?;
        if (now.st_dev, now.st_ino) == (volume.stat.st_dev, volume.stat.st_ino) {
            return Ok(());
        }
        Err(WriteError::DirectorySwapped)
    }

    /// The directory of all pods, and its path on the node without links.
    fn open_pods(&self) -> Result<(OwnedFd, PathBuf), WriteError> {
        let path = format!("{}/pods", self.kubelet.trim_end_matches('/'));
        let real = match self.host.resolve(&path) {
            Ok(real) => real,
            Err(error) if error.is_absent() => return Err(WriteError::VolumeMissing(path)),
            Err(error) => return Err(WriteError::Kubelet(error.to_string())),
        };
        let here = self.host.path(&real.to_string_lossy());
        match nix::fcntl::open(&here, DIRECTORY, Mode::empty()) {
            Err(Errno::ENOENT) => Err(WriteError::VolumeMissing(path)),
            Ok(opened) => Ok((opened, real)),
            Err(errno) => Err(WriteError::from_errno("opening the kubelet's pods", errno)),
        }
    }

    fn descend(&self, pods: &OwnedFd, place: &Place) -> Result<OwnedFd, WriteError> {
        let steps = [place.pod_uid.as_str(), "volumes", EMPTY_DIR, place.volume.as_str()];
        if self.walk == Walk::Steps {
            return descend_by_steps(pods, &steps);
        }
        let how = || {
            let resolve = ResolveFlag::RESOLVE_BENEATH
                | ResolveFlag::RESOLVE_NO_SYMLINKS
                | ResolveFlag::RESOLVE_NO_MAGICLINKS;
            OpenHow::new().flags(DIRECTORY).resolve(resolve)
        };
        let path = steps.join("/");
        for _ in 0..ATTEMPTS {
            match openat2(pods, path.as_str(), how()) {
                Ok(directory) => return Ok(directory),
                // Something was renamed while the kernel walked.
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                // Whatever it is, the steps are as strict, know kernels without the call, and name the culprit.
                Err(_) => return descend_by_steps(pods, &steps),
            }
        }
        Err(WriteError::DirectorySwapped)
    }
}

const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Each step is a plain name, so none leads up or away.
fn descend_by_steps(from: &OwnedFd, steps: &[&str]) -> Result<OwnedFd, WriteError> {
    let mut here: Option<OwnedFd> = None;
    for step in steps {
        let parent = here.as_ref().unwrap_or(from);
        let next = openat(parent, *step, DIRECTORY, Mode::empty());
        let next = next.map_err(|errno| match errno {
            Errno::ENOENT => WriteError::VolumeMissing((*step).to_owned()),
            Errno::ELOOP | Errno::ENOTDIR if is_link(parent, step) => {
                WriteError::SymlinkInPath((*step).to_owned())
            }
            Errno::ELOOP | Errno::ENOTDIR => WriteError::NotADirectory((*step).to_owned()),
            other => WriteError::from_errno("opening the volume", other),
        })?;
        here = Some(next);
    }
    here.ok_or(WriteError::DirectorySwapped)
}

fn is_link(parent: impl AsFd, name: &str) -> bool {
    let found = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| kind(&found) == SFlag::S_IFLNK)
}

/// Regular file, directory, link, …
pub(super) fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}
