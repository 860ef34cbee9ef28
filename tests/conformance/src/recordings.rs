//! The files of an area, from its archive or from a folder.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;

use crate::VARIABLE;

/// The recorded files of an area, by their path below it.
#[derive(Debug)]
pub struct Recordings {
    area: String,
    source: String,
    files: BTreeMap<String, Vec<u8>>,
}

// === impl Recordings ===

impl Recordings {
    /// Reads an area: from the folder that `MUSTER_CONFORMANCE` names, else from the archive in the repository.
    pub fn open(area: &str) -> Self {
        match std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
            Some(folder) => Self::of_folder(area, &PathBuf::from(folder)),
            None => Self::of_archive(area),
        }
    }

    /// Reads an area below a folder. An area that is not there has no files.
    pub fn of_folder(area: &str, folder: &Path) -> Self {
        let mut files = BTreeMap::new();
        let root = folder.join(area);
        if root.is_dir() {
            collect(&root, "", &mut files);
        }
        Self { area: area.to_owned(), source: folder.display().to_string(), files }
    }

    fn of_archive(area: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("{area}.tar.gz"));
        let packed = std::fs::read(&path)
            .unwrap_or_else(|error| panic!("{} cannot be read: {error}", path.display()));
        let files = unpack(&packed)
            .unwrap_or_else(|error| panic!("{} cannot be unpacked: {error}", path.display()));
        let source = "the repository; MUSTER_CONFORMANCE names a folder to read instead".to_owned();
        Self { area: area.to_owned(), source, files }
    }

    /// Where they are from, for people.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether there is such a file, or a folder with files.
    pub fn has(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.below(path).next().is_some()
    }

    /// The content of a file.
    pub fn bytes(&self, path: &str) -> &[u8] {
        let Some(content) = self.files.get(path) else {
            panic!("{}/{path} is not in {}", self.area, self.source);
        };
        content
    }

    /// A file of JSON.
    pub fn json<T: DeserializeOwned>(&self, path: &str) -> T {
        serde_json::from_slice(self.bytes(path))
            .unwrap_or_else(|error| panic!("{}/{path} cannot be read: {error}", self.area))
    }

    /// The files of JSON directly in a folder, in the order of their names.
    pub fn files<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        let direct = self.below(folder).filter(|(_, rest)| !rest.contains('/'));
        direct.filter(|(_, rest)| rest.ends_with(".json")).map(|(path, _)| path)
    }

    /// The content of the files of JSON directly in a folder, in the order of their names.
    pub fn each<T: DeserializeOwned>(&self, folder: &str) -> Vec<T> {
        self.files(folder).map(|path| self.json(path)).collect()
    }

    /// The folders directly in a folder, in the order of their names.
    pub fn folders(&self, folder: &str) -> Vec<String> {
        let heads = self.below(folder).filter_map(|(_, rest)| rest.split_once('/'));
        let mut names: Vec<String> = heads.map(|(name, _)| name.to_owned()).collect();
        names.dedup();
        names
    }

    fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files.keys().filter_map(move |path| {
            let rest = path.strip_prefix(folder)?.strip_prefix('/')?;
            Some((path.as_str(), rest))
        })
    }
}

fn unpack(packed: &[u8]) -> std::io::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(GzDecoder::new(packed)).entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path()?.to_string_lossy().trim_start_matches("./").to_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        files.insert(path, content);
    }
    Ok(files)
}

fn collect(folder: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    let unreadable = |error: std::io::Error| -> ! { panic!("{}: {error}", folder.display()) };
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| unreadable(error)) {
        let path = entry.unwrap_or_else(|error| unreadable(error)).path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let Some(name) = name else { continue };
        if path.is_dir() {
            collect(&path, &format!("{prefix}{name}/"), files);
        } else {
            let content = std::fs::read(&path).unwrap_or_else(|error| unreadable(error));
            files.insert(format!("{prefix}{name}"), content);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_and_a_folder_with_the_same_files_are_read_alike() {
        let files = [
            ("cases/b.json", "2"),
            ("cases/a.json", "1"),
            ("cases/deep/c.json", "3"),
            ("README.md", "x"),
        ];
        let folder =
            std::env::temp_dir().join(format!("muster-conformance-{}", std::process::id()));
        let mut builder = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let file = folder.join("area").join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, content).unwrap();
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_cksum();
            builder.append_data(&mut header, format!("./{path}"), content.as_bytes()).unwrap();
        }
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, &builder.into_inner().unwrap()).unwrap();
        let unpacked = unpack(&packed.finish().unwrap()).unwrap();
        let read = Recordings::of_folder("area", &folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read.files, unpacked);
        assert_eq!(read.each::<u8>("cases"), [1, 2]);
        assert_eq!(read.folders("cases"), ["deep"]);
        assert!(read.has("cases") && read.has("README.md") && !read.has("case"));
        assert!(!Recordings::of_folder("other", &folder).has("cases"));
    }
}
