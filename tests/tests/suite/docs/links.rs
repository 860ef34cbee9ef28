//! Links between pages: files, anchors, the index, and the table of contents of the site.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use regex::Regex;

use super::{read, root};

/// Every Markdown page of the tree, as a path from its root.
fn pages() -> Result<Vec<String>> {
    let (mut found, mut folders) = (Vec::new(), vec![String::new()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let is_folder = entry.file_type()?.is_dir();
            if is_folder && !name.starts_with('.') && name != "target" {
                folders.push(path);
            } else if !is_folder && name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A page without what is code: fenced blocks, and text between backticks.
fn prose(text: &str) -> Result<String> {
    let (mut fenced, mut kept) = (false, String::new());
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            kept += line;
            kept.push('\n');
        }
    }
    Ok(Regex::new("`[^`\n]*`")?.replace_all(&kept, "code").into_owned())
}

/// The anchors of a page's headings: words in lower case, joined by hyphens; a repeated heading gets a number.
fn anchors(text: &str) -> BTreeSet<String> {
    let (mut fenced, mut seen, mut all) = (false, BTreeMap::new(), BTreeSet::new());
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        if fenced || !line.starts_with('#') {
            continue;
        }
        let title = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        let anchor: String =
            title.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect();
        let times = seen.entry(anchor.clone()).or_insert(0);
        all.insert(if *times == 0 { anchor } else { format!("{anchor}-{times}") });
        *times += 1;
    }
    all
}

/// Whether a link of a page leads to a file, and to a heading in it if the link names one.
fn leads_somewhere(page: &str, link: &str) -> Result<bool> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let page = root().join(page);
    let target = match file {
        "" => page,
        file => page.parent().context("a page is in a folder")?.join(file),
    };
    if anchor.is_empty() {
        return Ok(target.exists());
    }
    Ok(std::fs::read_to_string(target).is_ok_and(|text| anchors(&text).contains(anchor)))
}

#[test]
fn every_link_leads_to_a_file_and_every_anchor_to_a_heading() -> Result<()> {
    let link = Regex::new(r"\]\(([^)\s]+)\)")?;
    let address = Regex::new("^[a-z]+:")?;
    let (mut broken, mut seen) = (Vec::new(), 0);
    for page in &pages()? {
        for found in link.captures_iter(&prose(&read(page)?)?) {
            let link = &found[1];
            seen += 1;
            if !address.is_match(link) && !leads_somewhere(page, link)? {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    ensure!(seen > 300, "only {seen} links were found");
    ensure!(broken.is_empty(), "{broken:#?}");
    Ok(())
}

/// Which pages of `docs/` a list does not link.
fn missing(list: &str, but: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let list = read(list)?;
    let docs = pages()?.into_iter().filter_map(|page| Some(page.strip_prefix("docs/")?.to_owned()));
    let listed = |page: &String| list.contains(&format!("]({page})"));
    Ok(docs.filter(|page| page != "SUMMARY.md" && !but(page) && !listed(page)).collect())
}

#[test]
fn the_index_leads_to_every_page() -> Result<()> {
    let apart = |page: &str| {
        page == "README.md" || page.starts_with("adr/") || page.starts_with("reports/")
    };
    let missing = missing("docs/README.md", apart)?;
    ensure!(missing.is_empty(), "docs/README.md has no link to {missing:?}");
    Ok(())
}

#[test]
fn the_site_has_every_page() -> Result<()> {
    let missing = missing("docs/SUMMARY.md", |page| page.starts_with("reports/"))?;
    ensure!(missing.is_empty(), "docs/SUMMARY.md has no link to {missing:?}");
    ensure!(Path::new(&root()).join("docs/book.toml").exists(), "docs/book.toml is missing");
    Ok(())
}
