//! The pages below `docs/reference`, made of the code: definitions, flags, names, conditions and reasons. Metrics are asked of running
//! programs, and become a page here.
//!
//! Nothing here is a list that somebody must keep: sources are walked, programs are asked. The test
//! `suite::docs::reference` compares the pages with what is in the repository, and writes them when it is told to.

pub mod crds;
pub mod flags;
pub mod metrics;
pub mod names;
pub mod reasons;
mod source;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub use source::Constant;

/// The command that writes the pages.
pub const COMMAND: &str =
    "MUSTER_WRITE=1 cargo test -p muster-tests --test suite suite::docs::reference";

/// The first lines of every page.
fn head(title: &str, about: &str) -> String {
    format!("# {title}\n\n{about} Made of the code: do not edit, run\n`{COMMAND}`.\n")
}

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Text as a cell of a table has it.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Text as code in a cell; nothing stays nothing.
fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", cell(text)) }
}

/// A row of a table.
fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | ")).replace("  |", " |")
}

/// What is wrong with a page of the repository. With `MUSTER_WRITE=1` it is written, and nothing is wrong.
pub fn compare(page: &str, wanted: &str) -> Result<Option<String>> {
    let path = root().join("docs/reference").join(page);
    if std::env::var_os("MUSTER_WRITE").is_some_and(|set| set == "1") {
        std::fs::create_dir_all(path.parent().context("no folder")?)?;
        std::fs::write(&path, wanted)?;
        return Ok(None);
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    if found == wanted {
        return Ok(None);
    }
    let lines = found.lines().zip(wanted.lines()).position(|(one, other)| one != other);
    let line = lines.unwrap_or_else(|| found.lines().count().min(wanted.lines().count()));
    Ok(Some(format!(
        "docs/reference/{page}, line {}: it has\n  {}\nand the code says\n  {}\nRun: {COMMAND}",
        line + 1,
        found.lines().nth(line).unwrap_or("(nothing)"),
        wanted.lines().nth(line).unwrap_or("(nothing)"),
    )))
}
