//! Files in, bounded; what is wrong with them names them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use muster_ranktable::{ConfigMap, Pod};
use serde_json::Value as Json;

use crate::Failure;

/// A table of a hundred thousand ranks has 12 MiB; the pods of one have about as much.
const LARGEST: u64 = 1 << 30;

/// The text of a file; `-` is stdin.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    let bytes = match path.as_os_str() == "-" {
        true => read(std::io::stdin().lock()),
        false => File::open(path).and_then(read),
    };
    let bytes = bytes.map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    String::from_utf8(bytes)
        .map_err(|_| Failure::Usage(format!("{}: this is no text", path.display())))
}

/// JSON, as it is in the file.
pub(crate) fn json(path: &Path) -> Result<Json, Failure> {
    serde_json::from_str(&text(path)?).map_err(|error| wrong(path, error))
}

/// A ConfigMap, YAML or JSON.
pub(crate) fn config_map(path: &Path) -> Result<ConfigMap, Failure> {
    let mut read = ConfigMap::read(&text(path)?).map_err(|error| wrong(path, error))?;
    if read.name.is_empty() {
        read.name = path.display().to_string();
    }
    Ok(read)
}

/// The parser of a template: the file that was given, or the one beside the template that has its name.
pub(crate) fn parser(
    given: Option<&Path>,
    template: &ConfigMap,
    path: &Path,
) -> Result<Option<ConfigMap>, Failure> {
    let beside = path.with_file_name(format!("{}.yaml", template.parser_name()));
    match given {
        Some(path) => config_map(path).map(Some),
        None if is_word(template.parser_name()) && beside.is_file() => {
            config_map(&beside).map(Some)
        }
        None => Ok(None),
    }
}

/// A name that cannot lead elsewhere.
fn is_word(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

/// YAML or JSON.
pub(crate) fn value(path: &Path) -> Result<Json, Failure> {
    let text = text(path)?;
    match serde_json::from_str(&text) {
        Ok(json) => Ok(json),
        // What begins like JSON is reported as JSON.
        Err(error) if text.trim_start().starts_with(['{', '[']) => Err(wrong(path, error)),
        Err(_) => serde_saphyr::from_str(&text).map_err(|error| wrong(path, error)),
    }
}

/// The objects of a file, YAML or JSON: of all its documents, and those in Lists.
pub(crate) fn objects(path: &Path) -> Result<Vec<Json>, Failure> {
    let text = text(path)?;
    let unreadable = |error: String| Failure::Usage(format!("{}: {error}", path.display()));
    let documents = match serde_json::from_str(&text) {
        Ok(json) => vec![json],
        Err(error) if text.trim_start().starts_with(['{', '[']) => {
            // Several documents may be JSON, with --- between them.
            serde_saphyr::from_multiple(&text).map_err(|_| unreadable(error.to_string()))?
        }
        Err(_) => {
            serde_saphyr::from_multiple(&text).map_err(|error| unreadable(error.to_string()))?
        }
    };
    let mut objects = Vec::new();
    for document in documents {
        match document {
            Json::Null => {}
            Json::Array(items) => objects.extend(items),
            Json::Object(mut list) if list.get("items").is_some_and(Json::is_array) => {
                if let Some(Json::Array(items)) = list.remove("items") {
                    objects.extend(items);
                }
            }
            object => objects.push(object),
        }
    }
    Ok(objects)
}

/// A List of Pods, a plain list of them, or one pod; YAML or JSON.
pub(crate) fn pods(path: &Path) -> Result<Vec<Pod>, Failure> {
    let items = match value(path)? {
        Json::Array(items) => items,
        Json::Object(mut list) if list.contains_key("items") => match list.remove("items") {
            Some(Json::Array(items)) => items,
            _ => return Err(wrong(path, "items is no list")),
        },
        pod @ Json::Object(_) => vec![pod],
        _ => return Err(wrong(path, "this is no List of Pods")),
    };
    let pods = items.into_iter().enumerate().map(|(index, item)| {
        serde_json::from_value(item)
            .map_err(|error| wrong(path, format!("items[{index}]: {error}")))
    });
    pods.collect()
}

pub(crate) fn wrong(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::Wrong(format!("{}: {error}", path.display()))
}

fn read(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(LARGEST + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > LARGEST {
        true => Err(std::io::Error::other("the file is larger than 1 GiB")),
        false => Ok(bytes),
    }
}
