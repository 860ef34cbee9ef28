//! What the labels and annotations of a pod ask for.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::error::shortened;
use super::frame::{Frame, name};
use super::{Delivery, Problem};
use crate::names::RANKTABLE_FILE;
use crate::template::{FILENAME, is_filename};
use muster_kube::rank_group::{
    RANK_GROUP, RANKTABLE_CONTAINERS, RANKTABLE_DELIVERY, RANKTABLE_TEMPLATE,
};

/// What a ConfigMap may be called, for people.
const CONFIG_MAP: &str = "the name of a ConfigMap: lower-case letters, digits, dots and dashes, a letter or digit at both ends";

/// What a pod asks for.
pub(super) struct Marks<'a> {
    pub(super) group: &'a str,
    pub(super) template: Option<&'a str>,
    pub(super) delivery: Delivery,
    pub(super) file: Option<&'a str>,
    containers: Option<&'a str>,
}

/// The containers that get a mount; none: all.
pub(super) struct Chosen<'a>(Option<BTreeSet<&'a str>>);

// === impl Marks ===

impl<'a> Marks<'a> {
    /// None for a pod of no group.
    pub(super) fn read(pod: &'a Json, delivery: Delivery) -> Result<Option<Self>, Problem> {
        if !pod.is_object() {
            return Err(Problem::Malformed { field: "the pod".into(), should: "an object" });
        }
        let Some(group) = text(pod, "labels", RANK_GROUP)? else { return Ok(None) };
        let mut template = None;
        for key in RANKTABLE_TEMPLATE {
            let Some(value) = annotation(pod, key)? else { continue };
            if !is_config_map(value) {
                return Err(Problem::annotation(key, value, CONFIG_MAP));
            }
            template = Some(value);
            break;
        }
        if template.is_none() {
            // Nothing will be done, so nothing can be wrong.
            return Ok(Some(Self { group, template, delivery, file: None, containers: None }));
        }
        if group.len() > 63 || !is_config_map(group) {
            let allowed = "at most 63 lower-case letters, digits, dots and dashes, a letter or digit at both ends";
            return Err(Problem::Mark {
                what: "label",
                key: RANK_GROUP,
                value: shortened(group),
                allowed,
            });
        }
        let delivery = match annotation(pod, RANKTABLE_DELIVERY)? {
            Some(word) => Delivery::parse(word)
                .ok_or_else(|| Problem::annotation(RANKTABLE_DELIVERY, word, Delivery::WORDS))?,
            None => delivery,
        };
        let file = text(pod, "annotations", RANKTABLE_FILE)?;
        if let Some(file) = file.filter(|file| !is_filename(file)) {
            return Err(Problem::annotation(RANKTABLE_FILE, file, FILENAME));
        }
        let containers = text(pod, "annotations", RANKTABLE_CONTAINERS)?;
        Ok(Some(Self { group, template, delivery, file, containers }))
    }

    /// The containers that see the table. Each one that is named must be there.
    pub(super) fn chosen(&self, frame: &Frame<'a>) -> Result<Chosen<'a>, Problem> {
        let Some(list) = self.containers else { return Ok(Chosen(None)) };
        let named: BTreeSet<&str> =
            list.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
        if named.is_empty() {
            let allowed = "names of containers, with commas between them";
            return Err(Problem::annotation(RANKTABLE_CONTAINERS, list, allowed));
        }
        let there: BTreeSet<&str> = frame.users().map(name).collect();
        match named.difference(&there).next() {
            Some(absent) => Err(Problem::NoContainer {
                name: shortened(absent),
                there: shortened(&there.into_iter().collect::<Vec<_>>().join(", ")),
            }),
            None => Ok(Chosen(Some(named))),
        }
    }
}

// === impl Chosen ===

impl Chosen<'_> {
    pub(super) fn has(&self, container: &str) -> bool {
        self.0.as_ref().is_none_or(|named| named.contains(container))
    }
}

/// A label or annotation; none if it is missing or null.
fn text<'a>(pod: &'a Json, map: &str, key: &str) -> Result<Option<&'a str>, Problem> {
    match &pod["metadata"][map][key] {
        Json::Null => Ok(None),
        Json::String(text) => Ok(Some(text)),
        _ => Err(Problem::Malformed { field: format!("metadata.{map}[{key}]"), should: "a text" }),
    }
}

/// An annotation without blanks around it; none if that is nothing.
fn annotation<'a>(pod: &'a Json, key: &str) -> Result<Option<&'a str>, Problem> {
    let text = text(pod, "annotations", key)?;
    Ok(text.map(str::trim).filter(|text| !text.is_empty()))
}

fn is_config_map(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let part = |part: &str| {
        part.bytes().all(|byte| fits(byte) || byte == b'-')
            && part.bytes().next().is_some_and(fits)
            && part.bytes().last().is_some_and(fits)
    };
    text.len() <= 253 && text.split('.').all(part)
}
