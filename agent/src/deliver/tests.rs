use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use muster_proto::delivery::{LARGEST_TABLE, SEAL, seal};
use nix::sys::stat::Mode;
use proptest::prelude::*;

use super::records::{RecordsFile, parse};
use super::target::{Volumes, Walk};
use super::unpack::unpack;
use super::writer::{WriteError, Writer};
use super::*;
use crate::host::Host;

mod decided;
mod remembered;
mod written;

const UID: &str = "0a1b2c3d-0000-4000-8000-00000000000f";
const TABLE: &str = "ranktable.json";

fn place() -> Place {
    Place { pod_uid: UID.into(), volume: "ranktable".into(), file: TABLE.into() }
}

fn order(generation: u64, content: &[u8]) -> Delivery {
    let digest = Digest::of(content);
    Delivery { place: place(), generation, digest, mode: 0o644, group: None }
}

fn pod() -> PodFacts {
    PodFacts { uid: UID.into(), rank_group: Some("a".into()), deleting: false }
}

fn record(generation: u64, content: &[u8]) -> Record {
    let print = Print { device: 1, inode: 2, bytes: 3, written: 4 };
    Record { generation, digest: Digest::of(content), since: 5, print, lost: false }
}

/// As the hub does it.
fn pack(content: &[u8]) -> Vec<u8> {
    sealed(&Digest::of(content), &twice(content))
}

fn frame(content: &[u8]) -> Vec<u8> {
    let info = lz4_flex::frame::FrameInfo::new().content_size(Some(content.len() as u64));
    let mut packer = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    packer.write_all(content).unwrap();
    packer.finish().unwrap()
}

/// One frame in another.
fn twice(content: &[u8]) -> Vec<u8> {
    frame(&frame(content))
}

fn sealed(digest: &Digest, frame: &[u8]) -> Vec<u8> {
    [&seal(digest, frame), frame].concat()
}

/// A node with one pod, and things outside its volume that must stay as they are.
struct Node {
    folder: tempfile::TempDir,
    volume: PathBuf,
    before: Vec<String>,
}

impl Node {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kubelet = folder.path().join("data/kubelet");
        let volume = kubelet.join(format!("pods/{UID}/volumes/kubernetes.io~empty-dir/ranktable"));
        fs::create_dir_all(&volume).unwrap();
        fs::create_dir_all(folder.path().join("var/lib")).unwrap();
        // As root does on nodes with a separate disk.
        symlink("/data/kubelet", folder.path().join("var/lib/kubelet")).unwrap();
        fs::create_dir_all(folder.path().join("outside")).unwrap();
        fs::write(folder.path().join("outside/shadow"), "secret").unwrap();
        fs::write(volume.parent().unwrap().join("neighbour"), "own").unwrap();
        let mut node = Self { folder, volume, before: Vec::new() };
        node.before = node.others();
        node
    }

    fn writer(&self) -> Writer {
        self.writer_walking(Walk::Openat2)
    }

    fn writer_walking(&self, walk: Walk) -> Writer {
        let host = Host::at(self.folder.path());
        Writer::new(Volumes::new(host, "/var/lib/kubelet").walking(walk), false)
    }

    fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    /// Everything but the volume: path, kind, mode, owner, links, content.
    fn others(&self) -> Vec<String> {
        let mut seen = Vec::new();
        let mut left = vec![self.folder.path().to_owned()];
        while let Some(path) = left.pop() {
            if path == self.volume {
                continue;
            }
            let found = fs::symlink_metadata(&path).unwrap();
            let content = match found.is_file() {
                true => fs::read(&path).unwrap(),
                false => Vec::new(),
            };
            let (mode, links) = (found.mode(), if found.is_file() { found.nlink() } else { 0 });
            seen.push(format!("{path:?} {mode:o} {} {links} {content:?}", found.gid()));
            if found.is_dir() {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
        seen.sort();
        seen
    }

    fn assert_nothing_outside_changed(&self) {
        assert_eq!(self.others(), self.before);
    }

    fn names(&self) -> Vec<String> {
        names_in(&self.volume)
    }

    fn table(&self) -> PathBuf {
        self.volume.join(TABLE)
    }

    fn refused(&self, order: &Delivery, packed: &[u8]) -> &'static str {
        self.writer().write(order, packed, &|| ()).unwrap_err().reason()
    }
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const BOTH: [&str; 2] = [TABLE, "ranktable.json.generation"];
