//! Objects, one line for each.

use std::io::Write;

use muster_kube::rank_group::{RANK_GROUP, RANK_GROUP_SIZE};
use muster_modelserving::naming;
use muster_modelserving::step::Object;

const HEADER: [&str; 5] = ["KIND", "NAME", "ROLE", "RANK GROUP", "SIZE"];

/// Where there is nothing to say.
const NONE: &str = "-";

pub(super) fn print(objects: &[Object], out: &mut dyn Write) -> std::io::Result<()> {
    let rows: Vec<[&str; 5]> =
        std::iter::once(HEADER).chain(objects.iter().map(row)).collect::<Vec<_>>();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

fn row(object: &Object) -> [&str; 5] {
    let metadata = &object.body["metadata"];
    let word = |place: &str, key: &str| metadata[place][key].as_str().unwrap_or(NONE);
    [
        object.kind.name(),
        &object.name,
        word("labels", naming::ROLE_ID),
        word("labels", RANK_GROUP),
        word("annotations", RANK_GROUP_SIZE),
    ]
}
