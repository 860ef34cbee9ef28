//! Writing a node's files below a root directory.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A directory that stands for `/` of a node.
pub(super) struct Tree {
    root: PathBuf,
}

/// A PCI function.
pub(super) struct Function<'a> {
    /// Its directory below `sys/devices`, root bridge first, itself last.
    pub path: &'a str,
    pub vendor: &'a str,
    pub device: &'a str,
    pub class: &'a str,
    pub revision: &'a str,
    /// -1: not known.
    pub numa: i64,
    pub cpus: &'a str,
}

// === impl Tree ===

impl Tree {
    pub fn at(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        Ok(Self { root: root.to_owned() })
    }

    /// A file with this content.
    pub fn file(&self, path: &str, content: &str) -> io::Result<()> {
        fs::write(self.place(path)?, content)
    }

    /// A file with one line.
    pub fn line(&self, path: &str, line: &str) -> io::Result<()> {
        self.file(path, &format!("{line}\n"))
    }

    /// An empty file in the place of a device file, which only root could make.
    pub fn device(&self, path: &str) -> io::Result<()> {
        self.file(path, "")
    }

    /// Writes an executable script.
    pub fn tool(&self, path: &str, script: &str) -> io::Result<()> {
        // Written aside and renamed: a running copy cannot be written to.
        let aside = format!("{path}.new");
        self.file(&aside, script)?;
        fs::set_permissions(self.root.join(&aside), Permissions::from_mode(0o755))?;
        fs::rename(self.root.join(&aside), self.root.join(path))
    }

    /// A symbolic link.
    pub fn link(&self, path: &str, target: &str) -> io::Result<()> {
        let place = self.place(path)?;
        match fs::remove_file(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        symlink(target, place)
    }

    /// A PCI function with its link from `sys/bus/pci/devices`.
    pub fn pci(&self, function: &Function<'_>) -> io::Result<()> {
        let Function { path, vendor, device, class, revision, numa, cpus } = function;
        let numa = numa.to_string();
        for (name, value) in [
            ("vendor", *vendor),
            ("device", device),
            ("class", class),
            ("revision", revision),
            ("numa_node", &numa),
            ("local_cpulist", cpus),
        ] {
            self.line(&format!("sys/devices/{path}/{name}"), value)?;
        }
        let bdf = path.rsplit('/').next().unwrap_or(path);
        self.link(&format!("sys/bus/pci/devices/{bdf}"), &format!("../../../devices/{path}"))
    }

    fn place(&self, path: &str) -> io::Result<PathBuf> {
        let place = self.root.join(path);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(place)
    }
}
