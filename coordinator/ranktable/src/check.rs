//! What is wrong with a table, before HCCL says so with a number.
//!
//! A table is read as its consumer reads it: the shape says which format it is, the format says which rules hold.
//! Errors are what HCCL (or MindIE) refuses or what makes a job hang; warnings are what works and surprises.
//!
//! ```text
//!   server_list        1.0, 1.2   concise.rs  super_pod.rs      texts only
//!   group_list         legacy     legacy.rs                     ranks by position
//!   rank_list          2.0        levels.rs                     integers
//!   server_group_list  MindIE     global.rs                     groups of servers
//!                      all        ranks.rs  address.rs
//! ```

mod address;
mod concise;
mod global;
mod legacy;
mod levels;
mod ranks;
mod super_pod;

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use serde_json::Value as Json;

/// No report has more findings; the first are the ones that explain the others.
const MOST: usize = 1000;

/// The formats that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `server_list`: HCCL 1.0, and 1.2 with super-pods.
    Concise,
    /// `group_list`: before there were versions.
    Legacy,
    /// `rank_list`: HCCL 2.0.
    Levels,
    /// `server_group_list`: MindIE's table of tables.
    Global,
    /// `prefill_device_list`: the table of vLLM-Ascend's connector. It has no ranks.
    Disaggregated,
}

/// The chip that a table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chip {
    /// 910 of the first generation: devices 0 to 7 in rings of four.
    Ascend910A,
    /// 910B, the A2 generation.
    Ascend910B,
    /// 310P, as in 300I Duo.
    Ascend310P,
    /// The A3 generation with super-pods.
    A3,
    /// The A5 generation.
    A5,
}

/// What is known beside the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Generation of the chip, if it is known.
    pub chip: Option<Chip>,
    /// Addresses of pods, which no server may have.
    pub pod_ips: BTreeSet<String>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The table is refused, or the job hangs.
    Error,
    /// It works and surprises.
    Warning,
}

/// Where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spot {
    /// The server, that is, the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Id of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Rank of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<String>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Code of the rule that is broken.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// Where it is.
    pub spot: Spot,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: &'static str,
}

#[derive(Debug, Default)]
struct Report {
    findings: Vec<Finding>,
}

/// Checks a table.
pub fn check(text: &str, facts: &Facts) -> Vec<Finding> {
    let mut report = Report::default();
    match serde_json::from_str::<Json>(text) {
        Ok(json) if json.is_object() => check_object(&json, facts, &mut report),
        Ok(_) => report.error("not_an_object", Spot::default(), "the file holds no JSON object", "write the table as one JSON object"),
        Err(error) => report.error(
            "json_invalid",
            Spot::default(),
            format!("the file is no JSON: {error}"),
            "HCCL gives up at once on such a file, an empty one included: write {\"status\":\"initializing\"} until the table is ready",
        ),
    }
    report.findings
}

/// The format of a table, by its shape.
pub fn format(json: &Json) -> Option<Format> {
    let has = |key: &str| json.get(key).is_some();
    match () {
        () if has("server_group_list") => Some(Format::Global),
        () if has("rank_list") || json["version"] == "2.0" => Some(Format::Levels),
        () if has("group_list") => Some(Format::Legacy),
        () if has("prefill_device_list") || has("decode_device_list") => {
            Some(Format::Disaggregated)
        }
        () if has("server_list") || has("version") => Some(Format::Concise),
        () => None,
    }
}

fn check_object(json: &Json, facts: &Facts, report: &mut Report) {
    let usable = status(json, report);
    let Some(format) = format(json) else {
        // A table that is not ready yet has nothing else.
        if usable {
            report.error(
                "format_unknown",
                Spot::default(),
                "there is no server_list, rank_list, group_list or server_group_list",
                "render the table with a template for HCCL or MindIE",
            );
        }
        return;
    };
    chip(json, format, facts, report);
    match format {
        Format::Concise => concise::check(json, facts, report),
        Format::Legacy => legacy::check(json, facts, report),
        Format::Levels => levels::check(json, report),
        Format::Global => global::check(json, facts, report),
        Format::Disaggregated => {}
    }
}

/// Whether the table says that it can be used.
fn status(json: &Json, report: &mut Report) -> bool {
    match json.get("status") {
        None => report.error(
            "status_missing",
            Spot::default(),
            "there is no status",
            "add \"status\": \"completed\" to the template",
        ),
        Some(Json::String(status)) if status == "completed" => {}
        Some(Json::String(status)) => {
            report.error(
                "status_not_completed",
                Spot::default(),
                format!("status is {status:?}: readers wait until it is completed, HCCL for at most 30 minutes"),
                "wait until all pods of the group have their annotation, or set the status in the template",
            );
            return false;
        }
        Some(_) => report.error(
            "status_not_string",
            Spot::default(),
            "status is no text",
            "write it as \"completed\"",
        ),
    }
    true
}

/// Each chip reads one schema.
fn chip(json: &Json, format: Format, facts: &Facts, report: &mut Report) {
    let Some(chip) = facts.chip else { return };
    let version = json["version"].as_str().unwrap_or_default();
    let wanted = match (chip, format) {
        (Chip::A5, Format::Concise | Format::Legacy) => "2.0",
        (Chip::A3, Format::Concise) if version == "1.0" => "1.2",
        (Chip::A3, Format::Levels | Format::Legacy) => "1.2",
        (Chip::Ascend910A | Chip::Ascend910B | Chip::Ascend310P, Format::Levels) => "1.0",
        (Chip::Ascend910A | Chip::Ascend910B | Chip::Ascend310P, Format::Concise)
            if version == "1.2" =>
        {
            "1.0"
        }
        _ => return,
    };
    report.error(
        "schema_chip_mismatch",
        Spot::default(),
        format!("the table has version {version:?}, but {chip:?} reads version {wanted:?}"),
        "use the template that is shipped for this chip",
    );
}

// === impl Chip ===

impl Chip {
    /// Reads the name.
    pub fn parse(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "910a" | "910" | "a1" => Some(Self::Ascend910A),
            "910b" | "a2" => Some(Self::Ascend910B),
            "310p" => Some(Self::Ascend310P),
            "a3" | "910c" => Some(Self::A3),
            "a5" | "950" => Some(Self::A5),
            _ => None,
        }
    }
}

// === impl Spot ===

impl Spot {
    fn server(server: &str) -> Self {
        Self { server: Some(server.to_owned()), ..Self::default() }
    }

    /// A device of a server, from its entry.
    fn device(server: &str, device: &Json) -> Self {
        let shown = |key: &str| match &device[key] {
            Json::Null => None,
            Json::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        Self { server: Some(server.to_owned()), device: shown("device_id"), rank: shown("rank_id") }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("server", &self.server), ("device", &self.device), ("rank", &self.rank)];
        let mut between = "";
        for (name, value) in parts {
            if let Some(value) = value {
                write!(f, "{between}{name} {value}")?;
                between = ", ";
            }
        }
        if between.is_empty() { f.write_str("table") } else { Ok(()) }
    }
}

// === impl Finding ===

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let Self { code, spot, message, remedy, .. } = self;
        write!(f, "{severity} {code} at {spot}: {message}; {remedy}")
    }
}

// === impl Report ===

impl Report {
    fn error(
        &mut self,
        code: &'static str,
        spot: Spot,
        message: impl Into<String>,
        remedy: &'static str,
    ) {
        self.add(code, Severity::Error, spot, message.into(), remedy);
    }

    fn warning(
        &mut self,
        code: &'static str,
        spot: Spot,
        message: impl Into<String>,
        remedy: &'static str,
    ) {
        self.add(code, Severity::Warning, spot, message.into(), remedy);
    }

    fn add(
        &mut self,
        code: &'static str,
        severity: Severity,
        spot: Spot,
        message: String,
        remedy: &'static str,
    ) {
        if self.findings.len() < MOST {
            self.findings.push(Finding { code, severity, spot, message, remedy });
        }
    }
}

/// The elements of a list; nothing if it is none.
fn list(json: &Json) -> &[Json] {
    json.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A text, or a number as text, since some writers use numbers.
fn shown(json: &Json) -> String {
    match json {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A count that, where it is there, must agree with what is counted.
fn count(
    json: &Json,
    key: &str,
    code: &'static str,
    counted: usize,
    spot: Spot,
    report: &mut Report,
) {
    let Some(said) = json.get(key) else { return };
    if shown(said).trim() != counted.to_string() {
        let message = format!("{key} is {}, but there are {counted}", shown(said));
        report.error(code, spot, message, "count again, or let the template write the count");
    }
}

#[cfg(test)]
mod tests;
