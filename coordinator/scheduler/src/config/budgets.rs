//! How long the search for victims may take.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde::Deserialize;

use muster_kube::duration;

/// How long the search for victims may take. Zero is without end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchBudgets {
    /// For one action, by its name; `default` is for those that are not named.
    pub action: BTreeMap<String, SignedDuration>,
    /// For one job at most.
    pub job_max: SignedDuration,
    /// For one job at least.
    pub job_min: SignedDuration,
    /// For one way of searching, by its name.
    pub generator: BTreeMap<String, SignedDuration>,
}

/// As it stands in a configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Written {
    max_action_search_duration: Option<BTreeMap<String, String>>,
    max_job_search_duration: Option<String>,
    min_job_search_duration: Option<String>,
    max_generator_search_duration: Option<BTreeMap<String, String>>,
}

// === impl SearchBudgets ===

impl SearchBudgets {
    /// For an action; none is without end.
    pub fn of_action(&self, name: &str) -> Option<SignedDuration> {
        ended(self.action.get(name).or_else(|| self.action.get("default")))
    }

    /// For a way of searching; none is without end.
    pub fn of_generator(&self, name: &str) -> Option<SignedDuration> {
        ended(self.generator.get(name).or_else(|| self.generator.get("default")))
    }
}

impl Default for SearchBudgets {
    fn default() -> Self {
        let secs = SignedDuration::from_secs;
        let named = |pairs: &[(&str, i64)]| {
            pairs.iter().map(|(name, span)| ((*name).to_owned(), secs(*span))).collect()
        };
        Self {
            action: named(&[("default", 300)]),
            job_max: secs(240),
            job_min: SignedDuration::ZERO,
            generator: named(&[("default", 120), ("NodeLocalGreedy", 30), ("MultiNodeGang", 120)]),
        }
    }
}

// === impl Written ===

impl Written {
    /// The budgets that it means, or the field that is wrong and why.
    pub(super) fn resolve(self) -> Result<SearchBudgets, (String, String)> {
        let mut budgets = SearchBudgets::default();
        let span = |field: &str, text: &str| {
            duration::parse_long(text).map_err(|error| (field.to_owned(), error.to_string()))
        };
        for (name, text) in self.max_action_search_duration.unwrap_or_default() {
            let field = format!("maxActionSearchDuration.{name}");
            budgets.action.insert(name, span(&field, &text)?);
        }
        for (name, text) in self.max_generator_search_duration.unwrap_or_default() {
            let field = format!("maxGeneratorSearchDuration.{name}");
            if !["default", "NodeLocalGreedy", "MultiNodeGang"].contains(&name.as_str()) {
                let known = "it must be default, NodeLocalGreedy or MultiNodeGang";
                return Err((field, known.to_owned()));
            }
            budgets.generator.insert(name, span(&field, &text)?);
        }
        if let Some(text) = self.max_job_search_duration {
            budgets.job_max = span("maxJobSearchDuration", &text)?;
        }
        if let Some(text) = self.min_job_search_duration {
            budgets.job_min = span("minJobSearchDuration", &text)?;
        }
        if !budgets.job_max.is_zero() && budgets.job_min >= budgets.job_max {
            let problem = "it must be less than maxJobSearchDuration".to_owned();
            return Err(("minJobSearchDuration".to_owned(), problem));
        }
        Ok(budgets)
    }
}

fn ended(span: Option<&SignedDuration>) -> Option<SignedDuration> {
    span.copied().filter(|span| !span.is_zero())
}
