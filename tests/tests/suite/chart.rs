//! What the chart says is so, as far as it can be seen without Helm: metrics, flags, versions. `hack/chart/test` does the rest.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use clap::CommandFactory;
use muster_tests::chart::deploy;
use serde_json::Value;

use super::docs::read;

fn shipped(path: &str) -> Result<String> {
    read(&format!("deploy/chart/{path}"))
}

/// All expressions of the alert rules and of the dashboard, with where they are.
fn expressions() -> Result<Vec<(String, String)>> {
    let alerts: Value = serde_saphyr::from_str(&shipped("monitoring/alerts.yaml")?)?;
    let dashboard: Value = serde_json::from_str(&shipped("monitoring/dashboard.json")?)?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for rule in list(&alerts["groups"]).iter().flat_map(|group| list(&group["rules"])) {
        found.push((word(&rule["alert"]), word(&rule["expr"])));
    }
    for panel in list(&dashboard["panels"]) {
        for target in list(&panel["targets"]) {
            found.push((word(&panel["title"]), word(&target["expr"])));
        }
    }
    Ok(found)
}

/// A metric that an expression names, with the labels that it asks for or groups by.
fn asked(expression: &str) -> Result<Vec<String>> {
    let name = regex::Regex::new(r"\b(?:muster|ranktable)_[a-z0-9_]+")?;
    let base = |word: &str| {
        let ends = ["_bucket", "_sum", "_count"];
        let end = ends.iter().find_map(|end| word.strip_suffix(end));
        end.unwrap_or(word).to_owned()
    };
    Ok(name.find_iter(expression).map(|found| base(found.as_str())).collect())
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_the_programs_have() -> Result<()> {
    // Another test keeps this page equal to what the programs show.
    let page = read("docs/reference/metrics.md")?;
    let row = regex::Regex::new(r"(?m)^\| `([a-z0-9_]+)` \|")?;
    let known: BTreeSet<String> =
        row.captures_iter(&page).map(|found| found[1].to_owned()).collect();
    ensure!(known.len() > 50, "{known:?}");
    let mut unknown = Vec::new();
    let expressions = expressions()?;
    ensure!(expressions.len() > 30, "{expressions:?}");
    for (place, expression) in expressions {
        let asked = asked(&expression)?;
        ensure!(!asked.is_empty(), "{place} asks for nothing: {expression}");
        unknown.extend(
            asked
                .into_iter()
                .filter(|name| !known.contains(name))
                .map(|name| format!("{place}: {name}")),
        );
    }
    assert!(unknown.is_empty(), "{unknown:#?}\nof {known:#?}");
    Ok(())
}

#[test]
fn every_alert_says_what_is_wrong_and_what_to_do() -> Result<()> {
    let alerts: Value = serde_saphyr::from_str(&shipped("monitoring/alerts.yaml")?)?;
    let mut seen = BTreeSet::new();
    for group in alerts["groups"].as_array().context("no groups")? {
        for rule in group["rules"].as_array().context("no rules")? {
            let name = rule["alert"].as_str().context("no name")?;
            assert!(seen.insert(name.to_owned()), "{name} is there twice");
            for field in ["/labels/severity", "/annotations/summary", "/annotations/description"] {
                assert!(rule.pointer(field).is_some_and(Value::is_string), "{name}: {field}");
            }
        }
    }
    Ok(())
}

/// The flags of a program that `values.yaml` may set: all but those that the chart sets itself.
fn open(command: &clap::Command, charts: &[&str]) -> BTreeSet<String> {
    let flags = command.get_arguments().filter(|flag| !flag.is_hide_set());
    let names =
        flags.filter_map(|flag| flag.get_long()).filter(|name| !["help", "version"].contains(name));
    names.filter(|name| !charts.contains(name)).map(str::to_owned).collect()
}

fn allowed(program: &str) -> Result<BTreeSet<String>> {
    let schema: Value = serde_json::from_str(&shipped("values.schema.json")?)?;
    let flags = &schema["properties"][program]["properties"]["flags"]["properties"];
    Ok(flags.as_object().context("no flags")?.keys().cloned().collect())
}

#[test]
fn the_flags_that_values_may_set_are_those_of_the_coordinator() -> Result<()> {
    let charts = [
        "namespace",
        "identity",
        "hub",
        "hub-address",
        "webhooks",
        "webhook-client-ca",
        "listen",
        "agent-account",
        "template-namespace",
        "agent-image",
        "di-server",
        "di-server-trust",
        "scheduler-config",
        "feature-gates",
        "leader-worker-sets",
        "runtime-finalizer",
        "default-scheduler",
        "scheduler-shard",
        "block-nvidia-visible-devices",
        "progress-server",
    ];
    let real = open(&muster_coordinator::args::Args::command(), &charts);
    assert_eq!(
        allowed("coordinator")?,
        real,
        "coordinator.flags of deploy/chart/values.schema.json"
    );
    Ok(())
}

#[test]
fn the_flags_that_values_may_set_are_those_of_the_agent() -> Result<()> {
    let charts = [
        "node",
        "sysroot",
        "no-tools",
        "kubelet-root",
        "state-dir",
        "coordinator",
        "coordinator-ca",
        "token-file",
        "listen",
    ];
    let command = muster_agent::args::Args::command();
    let run = command.find_subcommand("run").context("no run")?;
    assert_eq!(
        allowed("agent")?,
        open(run, &charts),
        "agent.flags of deploy/chart/values.schema.json"
    );
    Ok(())
}

#[test]
fn chart_and_programs_have_one_version() -> Result<()> {
    let chart: Value = serde_saphyr::from_str(&shipped("Chart.yaml")?)?;
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    Ok(())
}

/// Every name of the values is in the schema, and the schema has no name that the values lack.
#[test]
fn values_and_schema_have_the_same_names() -> Result<()> {
    fn walk(place: &str, values: &Value, schema: &Value, odd: &mut Vec<String>) {
        let Some(properties) = schema["properties"].as_object() else { return };
        let Some(values) = values.as_object() else { return };
        for (name, inner) in properties {
            let place = format!("{place}.{name}");
            match values.get(name) {
                // Flags have no defaults here; requests are people's; global is Helm's.
                None if place.contains(".flags.") || place.contains(".resources.") => {}
                None if place == ".global" => {}
                None => odd.push(format!("{place} is in the schema alone")),
                Some(value) => walk(&place, value, inner, odd),
            }
        }
        let closed = schema["additionalProperties"] == false;
        let unknown = values.keys().filter(|name| closed && !properties.contains_key(*name));
        odd.extend(unknown.map(|name| format!("{place}.{name} is in the values alone")));
    }
    let values: Value = serde_saphyr::from_str(&shipped("values.yaml")?)?;
    let schema: Value = serde_json::from_str(&shipped("values.schema.json")?)?;
    let mut odd = Vec::new();
    walk("", &values, &schema, &mut odd);
    assert!(odd.is_empty(), "{odd:#?}");
    Ok(())
}

/// One source: what the chart installs lies where the tests take it from.
#[test]
fn the_chart_has_links_to_what_is_shipped_and_no_copies() -> Result<()> {
    let links = [
        ("agent", "agent"),
        ("coordinator", "coordinator"),
        ("crds", "crds"),
        ("ctl", "ctl"),
        ("tables", "templates"),
    ];
    for (link, folder) in links {
        let found = deploy().join("chart/files").join(link);
        assert!(found.is_symlink(), "{}", found.display());
        assert_eq!(found.canonicalize()?, deploy().join(folder).canonicalize()?);
    }
    Ok(())
}
