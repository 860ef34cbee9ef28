//! `snapshot`: what decisions depend on, written down.

use std::io::Write;
use std::path::Path;

use serde_json::json;

use super::cluster::Cluster;
use super::kinds::Scope;
use crate::args::{SnapshotArgs, SnapshotOutput};
use crate::{Failure, note};

pub(crate) fn snapshot(args: &SnapshotArgs, out: &mut dyn Write) -> Result<bool, Failure> {
    let SnapshotArgs { file, output: SnapshotOutput::Json, scheduler_name, cluster } = args;
    let mut lists = Cluster::new(cluster)?.gather(Scope::All, None)?;
    if let Some(name) = scheduler_name.first() {
        lists.insert(
            "schedulerParams".to_owned(),
            json!({"schedulerName": name, "groupsByNamespace": true}),
        );
    }
    let Some(path) = file else {
        serde_json::to_writer(&mut *out, &lists).map_err(Failure::wrong)?;
        writeln!(out)?;
        return Ok(false);
    };
    let text = serde_json::to_vec(&lists).map_err(Failure::wrong)?;
    write(path, &text).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    let count = |list: &str| lists.get(list).and_then(|list| list.as_array()).map_or(0, Vec::len);
    note(format_args!(
        "{}: {} nodes, {} pods, {} pod groups, {} queues",
        path.display(),
        count("nodes"),
        count("pods"),
        count("podGroups"),
        count("queues")
    ));
    Ok(false)
}

/// All of it or nothing, readable by its owner alone: labels and annotations say a lot about a cluster.
fn write(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
