//! What the Helm chart renders, looked at: `hack/chart/test` renders it with several values and asks here.
//!
//! ```text
//!   deploy/{agent,coordinator,crds,ctl,templates} ──files/──▶ chart ──helm template──▶ Rendered ──▶ Finding, one per rule
//!            └──────────────── shipped: the same objects, but for the chart's labels ────────────────┘
//! ```
//!
//! Rules that hold for any values are in [`pods`] and [`wiring`]; [`shipped`] holds for the defaults.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub mod pods;
pub mod shipped;
pub mod wiring;

/// The objects that a chart renders.
#[derive(Debug)]
pub struct Rendered {
    objects: Vec<Value>,
}

/// A rule, and what breaks it.
#[derive(Debug)]
pub struct Finding {
    /// Name of the rule that was broken.
    pub rule: &'static str,
    /// What breaks it; empty: nothing does.
    pub broken: Vec<String>,
}

// === impl Rendered ===

impl Rendered {
    /// Reads what `helm template` printed.
    pub fn read(text: &str) -> Result<Self> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("not YAML")?;
        let objects: Vec<Value> = documents.into_iter().filter(|one| !one.is_null()).collect();
        ensure!(!objects.is_empty(), "nothing is rendered");
        Ok(Self { objects })
    }

    /// All of them.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        self.objects.iter()
    }

    /// Those of a kind.
    pub fn of(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |one| one["kind"] == kind)
    }

    /// The one of this kind and name.
    pub fn get(&self, kind: &str, name: &str) -> Option<&Value> {
        self.of(kind).find(|one| one["metadata"]["name"] == name)
    }

    /// All rules that hold for any values.
    pub fn findings(&self) -> Vec<Finding> {
        vec![
            Finding { rule: "no two objects have one name", broken: self.twice() },
            Finding { rule: "the programs know their arguments", broken: pods::arguments(self) },
            Finding { rule: "containers give up what they do not need", broken: pods::free(self) },
            Finding { rule: "mounts have volumes, and volumes mounts", broken: pods::mounts(self) },
            Finding { rule: "selectors find the pods", broken: wiring::selectors(self) },
            Finding { rule: "ports lead to where programs listen", broken: wiring::ports(self) },
            Finding {
                rule: "webhooks call a Service that is there",
                broken: wiring::webhooks(self),
            },
            Finding {
                rule: "permissions are given to accounts in use",
                broken: wiring::accounts(self),
            },
            Finding {
                rule: "what is switched on has its permissions",
                broken: wiring::switched(self),
            },
        ]
    }

    fn twice(&self) -> Vec<String> {
        let mut names: Vec<String> = self.objects.iter().map(name).collect();
        names.sort();
        names.windows(2).filter(|two| two[0] == two[1]).map(|two| two[0].clone()).collect()
    }
}

/// Kind, namespace and name, for people.
pub fn name(object: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    format!(
        "{} {}/{}",
        word(&object["kind"]),
        word(&metadata["namespace"]),
        word(&metadata["name"])
    )
}

/// The folder of all that is shipped.
pub fn deploy() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy"))
}

/// The items of a list; none if it is none.
fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
