//! `docs/architecture.md` describes the tree as it is.

use anyhow::{Context, Result, ensure};
use regex::Regex;

use super::{read, root};

const PAGE: &str = "docs/architecture.md";

#[test]
fn every_crate_of_the_workspace_is_on_the_page() -> Result<()> {
    let (page, manifest) = (read(PAGE)?, read("Cargo.toml")?);
    let list = Regex::new(r"(?s)\nmembers = \[(.*?)\]")?;
    let list = list.captures(&manifest).context("Cargo.toml has no members")?;
    let (quoted, name) = (Regex::new("\"([^\"]+)\"")?, Regex::new("(?m)^name = \"([^\"]+)\"")?);
    let mut missing = Vec::new();
    for folder in quoted.captures_iter(&list[1]).map(|found| found[1].to_owned()) {
        let manifest = read(&format!("{folder}/Cargo.toml"))?;
        let name = &name.captures(&manifest).context("a crate has no name")?[1];
        if !page.contains(&format!("| `{name}` | `{folder}` |")) {
            missing.push(format!("{name} in {folder}"));
        }
    }
    ensure!(missing.is_empty(), "{PAGE}, \"The crates\", lacks {missing:?}");
    Ok(())
}

#[test]
fn every_path_on_the_page_exists() -> Result<()> {
    let path = Regex::new("`((?:agent|coordinator|deploy|docs|hack|proto|tests)/[^`\\s]*)`")?;
    let page = read(PAGE)?;
    let named: Vec<&str> =
        path.captures_iter(&page).filter_map(|found| Some(found.get(1)?.as_str())).collect();
    let gone: Vec<&&str> = named.iter().filter(|path| !root().join(path).exists()).collect();
    ensure!(named.len() > 60, "only {} paths were found", named.len());
    ensure!(gone.is_empty(), "{PAGE} names what does not exist: {gone:?}");
    Ok(())
}
