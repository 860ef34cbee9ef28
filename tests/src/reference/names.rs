//! Labels, annotations and other keys that our programs read or write.

use std::collections::BTreeMap;

use anyhow::Result;
use regex::Regex;

use super::{cell, code, head, root, row, source};

const FOLDERS: [&str; 3] = ["proto/src", "agent/src", "coordinator"];

/// A key of a label or an annotation: a domain and a name. Versions of APIs look the same and are none.
fn key(value: &str) -> bool {
    let Some((domain, name)) = value.split_once('/') else { return false };
    let version = name.starts_with('v') && name.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    (domain.contains('.') || domain == "hccl")
        && !version
        && !name.ends_with('-')
        && domain != "oracle.test"
        && !name.is_empty()
        && value.split('/').count() == 2
        && domain.chars().all(|c| word(c) && !c.is_ascii_uppercase())
        && name.chars().all(word)
}

/// The page's text.
pub fn page() -> Result<String> {
    let mut known: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut plain: BTreeMap<String, (String, String)> = BTreeMap::new();
    for folder in FOLDERS {
        for file in source::files(&root(), folder)? {
            for found in source::constants(&root(), &file)? {
                for value in &found.values {
                    let map = match key(value) {
                        true => &mut known,
                        false if found.module == "label" => &mut plain,
                        false => continue,
                    };
                    let entry = map.entry(value.clone()).or_default();
                    if entry.0.is_empty() {
                        *entry = (found.about.clone(), found.file.clone());
                    }
                }
            }
        }
    }
    let mut text = head(
        "Labels, annotations and other keys",
        "Every key that Muster reads or writes on objects, resources and finalizers included.",
    );
    let link = Regex::new(r"\[`([^`\]]+)`\]")?;
    let mut table = |title: &str, map: &BTreeMap<String, (String, String)>| {
        text += &format!("\n## {title}\n\n| key | meaning | defined in |\n|---|---|---|\n");
        for (key, (about, file)) in map {
            let about = link.replace_all(about, "`$1`").into_owned();
            let place = format!("[{file}](../../{file})");
            text += &row(&[code(key), cell(&about), place]);
        }
    };
    let part = |ours: bool| {
        let is = |key: &str| key.starts_with("muster.dev/") || key.starts_with("ascend.com/");
        known
            .iter()
            .filter(|(key, _)| is(key) == ours)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    };
    table("Muster's own", &part(true));
    table("Of others", &part(false));
    table("Labels of DIJobs without a domain", &plain);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::key;

    #[test]
    fn keys_are_told_from_versions_and_paths() {
        for good in ["muster.dev/rank-group", "kai.scheduler/queue", "huawei.com/AscendReal"] {
            assert!(key(good), "{good}");
        }
        for bad in
            ["jobset.x-k8s.io/v1alpha2", "/etc/x", "a/b", "huawei.com/", "a.b/c/d", "x y.z/a"]
        {
            assert!(!key(bad), "{bad}");
        }
    }
}
