//! Constants of the sources, with what is said about them.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Result};
use regex::Regex;

/// Where a constant text begins, a module begins, a text is. Compiled once: there are many files.
static PATTERNS: LazyLock<Result<[Regex; 3], regex::Error>> = LazyLock::new(|| {
    Ok([
        Regex::new(
            r"^\s*(?:pub(?:\([a-z]+\))? )?const [A-Z0-9_]+: (?:&str|\[&str; \d+\]|&\[&str\]) =",
        )?,
        Regex::new(r"^(?:pub(?:\([a-z]+\))? )?mod ([a-z_]+) \{")?,
        Regex::new(r#""((?:[^"\\]|\\.)*)""#)?,
    ])
});

/// A constant text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// The file, from the root of the repository.
    pub file: String,
    /// The module in that file, `reason` say; empty at its top.
    pub module: String,
    /// Its values; a list has several.
    pub values: Vec<String>,
    /// What is said about it.
    pub about: String,
}

/// The sources of a folder, tests left out.
pub fn files(root: &Path, folder: &str) -> Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![root.join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                if !matches!(name, "tests" | "fuzz" | "benches" | "target" | "examples") {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") && name != "tests.rs" {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The constants of one file, up to its tests.
pub fn constants(root: &Path, file: &Path) -> Result<Vec<Constant>> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let name = file.strip_prefix(root).unwrap_or(file).display().to_string();
    let [begin, module, value] = PATTERNS.as_ref().map_err(Clone::clone)?;
    let (mut all, mut about, mut inside) = (Vec::new(), Vec::new(), String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(said) = line.trim_start().strip_prefix("///") {
            about.push(said.trim().to_owned());
        } else if let Some(found) = module.captures(line) {
            inside = found[1].to_owned();
            about.clear();
        } else if begin.is_match(line) {
            let mut whole = line.to_owned();
            while !whole.trim_end().ends_with(';') {
                let Some(next) = lines.next() else { break };
                whole += next;
            }
            let right = whole.split_once(" =").map_or("", |(_, right)| right);
            let values: Vec<String> =
                value.captures_iter(right).map(|found| found[1].to_owned()).collect();
            if !values.is_empty() {
                let about = about.join(" ");
                all.push(Constant { file: name.clone(), module: inside.clone(), values, about });
            }
            about.clear();
        } else {
            if line == "}" {
                inside.clear();
            }
            if !line.trim_start().starts_with("#[") {
                about.clear();
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_found_with_their_module_and_what_is_said_about_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.rs");
        let text = "/// One.\npub const A: &str = \"x/a\";\n/// Not a text.\nconst N: u8 = 1;\npub mod reason {\n    \
            /// Two\n    /// lines.\n    pub(crate) const B: [&str; 2] =\n        [\"b\", \"c\"];\n}\nconst D: &str = \"d\";\n\
            #[cfg(test)]\nmod tests { const E: &str = \"e\"; }\n";
        std::fs::write(&file, text).unwrap();
        let found = constants(folder.path(), &file).unwrap();
        let short: Vec<_> = found
            .iter()
            .map(|one| (one.module.as_str(), one.values.join(","), one.about.as_str()))
            .collect();
        assert_eq!(
            short,
            [
                ("", "x/a".to_owned(), "One."),
                ("reason", "b,c".to_owned(), "Two lines."),
                ("", "d".to_owned(), "")
            ]
        );
    }
}
