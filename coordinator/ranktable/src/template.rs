//! A template ConfigMap: how a group's table is made and where its file goes.
//!
//! ```text
//!   data:
//!     inference-engine     mindie, vllm-ascend, …            (a word, for people)
//!     ranktable-level      role | group                      (role)
//!     pod-parser-template  the ConfigMap of the parser       (the standard parser)
//!     ranktable-template   Go template                       (required)
//!     mount-path           where the file goes               (/etc/ascend/ranktable)
//!     filename             its name                          (ranktable.json)
//!     rank-order           lexical | numeric | pod | topology   (lexical)
//!     rank-stability       recount | keep                    (recount)
//! ```
//!
//! Both templates are compiled once. Every error names the ConfigMap and the key.

mod digest;

use std::collections::BTreeMap;

use gotemplate::{Functions, Limits, Template};
use muster_proto::annotation::LARGEST;
use serde::Deserialize;

use crate::number::Stability;
use crate::order::Order;

/// The namespace that templates live in, unless configured otherwise.
pub const NAMESPACE: &str = "kthena-system";
/// The parser of templates that name none. It is built in, so it works without its ConfigMap.
pub const STANDARD_PARSER: &str = "ascend-pod-ranktable-parser-standard";

const PARSER_REFERENCE: &str = "pod-parser-template";
const PARSER: &str = "parser-template";
const TABLE: &str = "ranktable-template";

/// What a file may be called, for people.
pub(crate) const FILENAME: &str = "letters, digits, dots, dashes and underscores, at most 128, without a dot in front and without .generation at the end";

/// What the standard parser is, word for word as in its shipped ConfigMap.
const STANDARD_SOURCE: &str = r#"{{- $pod := fromJson . -}}
podName: {{ quote $pod.pod_name }}
serverId: {{ quote $pod.server_id }}
devices:
{{- range $device := $pod.devices }}
  - deviceId: {{ quote $device.device_id }}
    deviceIp: {{ quote $device.device_ip }}
{{- end }}
"#;

/// A ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Object")]
pub struct ConfigMap {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// Data.
    pub data: BTreeMap<String, String>,
}

/// Which pods share a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Those of a role.
    #[default]
    Role,
    /// All of a group.
    Group,
}

/// A template, ready for use.
#[derive(Debug)]
pub struct TableTemplate {
    /// The name of its ConfigMap.
    pub name: String,
    /// The engine that it is for.
    pub engine: String,
    /// Which pods share a table.
    pub level: Level,
    /// The order of ranks, if it says one.
    pub order: Option<Order>,
    /// Whether ranks stay when the group changes.
    pub stability: Stability,
    /// Where the file goes.
    pub mount_path: String,
    /// The name of the file.
    pub filename: String,
    pub(crate) parser: Source,
    pub(crate) table: Source,
}

/// A Go template and where it came from.
#[derive(Debug)]
pub(crate) struct Source {
    config_map: String,
    key: &'static str,
    compiled: Result<Template, gotemplate::Error>,
    text: String,
}

/// What is wrong with a template ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A key that must be there is not.
    #[error("ConfigMap {config_map} has no key {key}: add it")]
    Missing {
        /// The ConfigMap.
        config_map: String,
        /// The key.
        key: &'static str,
    },
    /// A key holds something that it cannot hold.
    #[error("ConfigMap {config_map}, key {key}: {value:?} is not allowed; use {allowed}")]
    Invalid {
        /// The ConfigMap.
        config_map: String,
        /// The key.
        key: &'static str,
        /// What it holds.
        value: String,
        /// What it can hold.
        allowed: &'static str,
    },
    /// It names a parser that is not there.
    #[error(
        "ConfigMap {config_map}, key pod-parser-template: there is no ConfigMap {parser}; create it or drop the key"
    )]
    NoParser {
        /// The ConfigMap.
        config_map: String,
        /// The parser's ConfigMap.
        parser: String,
    },
    /// A Go template does not parse or does not execute.
    #[error("ConfigMap {config_map}, key {key}: {error}")]
    Template {
        /// The ConfigMap.
        config_map: String,
        /// The key.
        key: &'static str,
        /// What the engine says, with line and column.
        error: Box<gotemplate::Error>,
    },
}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
}

// === impl ConfigMap ===

impl ConfigMap {
    /// Reads a ConfigMap from YAML or JSON.
    pub fn read(text: &str) -> Result<Self, String> {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }

    /// The name of the parser that this template asks for.
    pub fn parser_name(&self) -> &str {
        self.get(PARSER_REFERENCE).unwrap_or(STANDARD_PARSER)
    }

    /// What a key holds, without blanks around it; none if that is nothing.
    fn get(&self, key: &str) -> Option<&str> {
        self.data.get(key).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    fn invalid(&self, key: &'static str, value: &str, allowed: &'static str) -> TemplateError {
        let (config_map, value) = (self.name.clone(), value.to_owned());
        TemplateError::Invalid { config_map, key, value, allowed }
    }

    fn word<T: Default>(
        &self,
        key: &'static str,
        allowed: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, TemplateError> {
        let Some(value) = self.get(key) else { return Ok(T::default()) };
        read(value).ok_or_else(|| self.invalid(key, value, allowed))
    }

    /// The template under the key; not trimmed, since blanks are part of the output.
    fn source(&self, key: &'static str) -> Source {
        Source::new(&self.name, key, self.data.get(key).map(String::as_str).unwrap_or_default())
    }
}

impl From<Object> for ConfigMap {
    fn from(object: Object) -> Self {
        let Object { metadata, data } = object;
        Self { name: metadata.name, namespace: metadata.namespace, data: data.unwrap_or_default() }
    }
}

// === impl Level ===

impl Level {
    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "role" => Some(Self::Role),
            "group" => Some(Self::Group),
            _ => None,
        }
    }
}

// === impl TableTemplate ===

impl TableTemplate {
    /// Reads a template ConfigMap and the parser that it names. Without one the standard parser is taken if no
    /// other is named.
    pub fn read(template: &ConfigMap, parser: Option<&ConfigMap>) -> Result<Self, TemplateError> {
        let read = Self::read_unverified(template, parser)?;
        read.parser.verify()?;
        read.table.verify()?;
        Ok(read)
    }

    /// Like [`TableTemplate::read`], but a Go template that does not parse is an error only when it is used, and one
    /// that is not there is empty. The recorded behaviour of the original is of this kind.
    pub fn read_unverified(
        template: &ConfigMap,
        parser: Option<&ConfigMap>,
    ) -> Result<Self, TemplateError> {
        let parser = match parser {
            Some(parser) => parser.source(PARSER),
            None if template.parser_name() == STANDARD_PARSER => {
                Source::new(STANDARD_PARSER, PARSER, STANDARD_SOURCE)
            }
            None => {
                let (config_map, parser) = (&template.name, template.parser_name());
                return Err(TemplateError::NoParser {
                    config_map: config_map.clone(),
                    parser: parser.to_owned(),
                });
            }
        };
        let mount_path = template.get("mount-path").unwrap_or("/etc/ascend/ranktable");
        if !is_mount_path(mount_path) {
            let allowed =
                "an absolute path without .., of letters, digits, dots, dashes and underscores";
            return Err(template.invalid("mount-path", mount_path, allowed));
        }
        let filename = template.get("filename").unwrap_or("ranktable.json");
        if !is_filename(filename) {
            return Err(template.invalid("filename", filename, FILENAME));
        }
        Ok(Self {
            name: template.name.clone(),
            engine: template.get("inference-engine").unwrap_or_default().to_owned(),
            level: template.word("ranktable-level", "role or group", Level::parse)?,
            order: template
                .word("rank-order", Order::WORDS, |word| Order::parse(word).map(Some))?,
            stability: template.word("rank-stability", Stability::WORDS, Stability::parse)?,
            mount_path: mount_path.to_owned(),
            filename: filename.to_owned(),
            parser,
            table: template.source(TABLE),
        })
    }
}

// === impl Source ===

impl Source {
    fn new(config_map: &str, key: &'static str, text: &str) -> Self {
        // What a parser writes about one pod is small; a table may have a hundred thousand ranks.
        let limits = match key {
            PARSER => {
                Limits { output: LARGEST, steps: 10_000_000, work: 64 << 20, ..Limits::default() }
            }
            _ => Limits::default(),
        };
        let compiled = Template::parse_within(key, text, &Functions::standard(), limits);
        Self { config_map: config_map.to_owned(), key, compiled, text: text.to_owned() }
    }

    /// There is a template, and it parses.
    fn verify(&self) -> Result<(), TemplateError> {
        if self.text.trim().is_empty() {
            let (config_map, key) = (self.config_map.clone(), self.key);
            return Err(TemplateError::Missing { config_map, key });
        }
        self.get().map(drop)
    }

    /// The compiled template.
    pub(crate) fn get(&self) -> Result<&Template, TemplateError> {
        self.compiled.as_ref().map_err(|error| self.error(error.clone()))
    }

    /// Whether the text mentions a field. A comment counts too: the answer only saves work.
    pub(crate) fn mentions(&self, field: &str) -> bool {
        self.text.contains(field)
    }

    /// Whether it is the standard parser, built in or from its ConfigMap.
    pub(crate) fn is_standard_parser(&self) -> bool {
        self.text == STANDARD_SOURCE
    }

    /// An error of the engine, with the place that the template came from.
    pub(crate) fn error(&self, error: gotemplate::Error) -> TemplateError {
        let (config_map, error) = (self.config_map.clone(), Box::new(error));
        TemplateError::Template { config_map, key: self.key, error }
    }
}

// === impl TemplateError ===

impl TemplateError {
    /// The kind, for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "template-key-missing",
            Self::Invalid { .. } => "template-key-invalid",
            Self::NoParser { .. } => "parser-missing",
            Self::Template { error, .. } => error.reason(),
        }
    }
}

/// What a file may be called: the API takes it as a key of a ConfigMap, the agent writes it, a shell reads it.
pub(crate) fn is_filename(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(is_plain)
        && !name.starts_with('.')
        && !name.ends_with(".generation")
}

/// Where a file may go. The path becomes part of a shell script, so nothing in it may mean something to a shell.
fn is_mount_path(path: &str) -> bool {
    let parts = || path.split('/').filter(|part| !part.is_empty());
    path.len() <= 1024
        && path.starts_with('/')
        && path.bytes().all(|byte| byte == b'/' || is_plain(byte))
        && parts().all(|part| part != "..")
        && parts().any(|part| part != ".")
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

#[cfg(test)]
mod tests;
