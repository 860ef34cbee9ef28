//! What the documentation says is so: flags, metrics, reasons, examples, links, and the reference that is made of the code.

mod architecture;
mod links;
mod reference;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::CommandFactory;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::ResourceExt;
use kube::api::ListParams;
use muster_coordinator::args::Args;
use muster_coordinator::ranktables::conditions::reason;
use muster_coordinator::ranktables::events;
use muster_coordinator::ranktables::{self, metrics::Reason};
use muster_coordinator::workloads::dijob::server;
use muster_coordinator::workloads::trainjob::progress;
use muster_coordinator::workloads::{modelserving, trainjob};
use muster_runtime::election;
use muster_runtime::{ObjectMetrics, ReconcileMetrics};
use muster_scheduler_state::Outcome;
use muster_scheduling::grouper;
use muster_serving::webhook;
use muster_tests::World;
use muster_tests::world::{Seen, table_file};
use prometheus_client::registry::Registry;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(root().join(path)).with_context(|| path.to_owned())
}

/// The rows of the tables below a heading, up to the next one of its level or above.
pub(super) fn rows(text: &str, heading: &str) -> Vec<String> {
    let level = heading.chars().take_while(|c| *c == '#').count();
    let ends = |line: &str| {
        let marks = line.chars().take_while(|c| *c == '#').count();
        (1..=level).contains(&marks)
    };
    let below = text.lines().skip_while(|line| *line != heading).skip(1);
    let table = below.take_while(|line| !ends(line)).filter(|line| line.starts_with("| `"));
    table.map(str::to_owned).collect()
}

/// What stands in the first cell, without its backticks.
pub(super) fn names(rows: &[String]) -> BTreeSet<String> {
    let name = |row: &String| row.split('`').nth(1).unwrap_or_default().to_owned();
    rows.iter().map(name).collect()
}

/// A flag as the table has it.
fn flag(arg: &clap::Arg) -> Option<String> {
    let cell = |text: String| if text.is_empty() { String::new() } else { format!("`{text}`") };
    let long = arg.get_long().filter(|_| !arg.is_hide_set())?;
    let value = arg.get_value_names().into_iter().flatten().next();
    let possible = arg.get_possible_values();
    let words: Vec<&str> = possible.iter().map(clap::builder::PossibleValue::get_name).collect();
    let value = match (words.is_empty(), value) {
        (false, _) => format!(" {}", words.join("\\|")),
        (true, Some(value)) => format!(" {value}"),
        (true, None) => String::new(),
    };
    let default: Vec<_> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let env = arg.get_env().map(|env| env.to_string_lossy().into_owned()).unwrap_or_default();
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let row =
        format!("| `--{long}{value}` | {help} | {} | {} |", cell(default.join(",")), cell(env));
    Some(row.replace("  |", " |"))
}

#[test]
fn the_flags_in_the_docs_are_those_of_the_program() -> Result<()> {
    let told = rows(&read("docs/coordinator.md")?, "## Flags");
    let command = Args::command();
    let real: Vec<String> = command.get_arguments().filter_map(flag).collect();
    assert_eq!(told, real, "docs/coordinator.md, Flags; it should be:\n{}\n", real.join("\n"));
    Ok(())
}

#[test]
fn the_reasons_of_conditions_and_events_in_the_docs_are_those_of_the_controller() -> Result<()> {
    let text = read("docs/ranktables.md")?;
    let set = |words: &[&str]| -> BTreeSet<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    };
    let conditions: BTreeSet<String> =
        set(&reason::READY).union(&set(&reason::DELIVERY)).cloned().collect();
    assert_eq!(names(&rows(&text, "## Conditions")), conditions);
    assert_eq!(names(&rows(&text, "## Events")), set(&events::ALL));
    Ok(())
}

#[test]
fn the_reasons_of_events_of_a_dijob_in_the_docs_are_those_of_the_operator() -> Result<()> {
    let rows = rows(&read("docs/dijob.md")?, "## Events").join("\n");
    for word in muster_dijob::names::reason::ALL {
        assert!(rows.contains(&format!("`{word}`")), "{word}");
    }
    Ok(())
}

#[test]
fn the_conditions_of_a_model_serving_in_the_docs_are_those_of_the_controller() -> Result<()> {
    let text = read("docs/modelserving.md")?;
    let rows = rows(&text, "## Conditions");
    let failed = rows.iter().find(|row| row.starts_with("| `Failed`")).context("no row")?;
    for word in reason::STUCK.iter().chain(&["InvalidLevel", "InvalidScope"]) {
        assert!(failed.contains(&format!("`{word}`")), "{word}: {failed}");
    }
    let told = names(&rows);
    for kind in ["Available", "Progressing", "UpdateInProgress", "RanktableReady", "Failed"] {
        assert!(told.contains(kind), "{kind}: {told:?}");
    }
    Ok(())
}

/// Each row of the table names a file and tests in it.
#[test]
fn the_tests_of_the_test_plan_are_there() -> Result<()> {
    let text = read("docs/modelserving.md")?;
    let place = regex::Regex::new(r"\]\(\.\./([^)]+)\)")?;
    let word = regex::Regex::new("`([a-z0-9_]+)`")?;
    let table = text.lines().skip_while(|line| *line != "## Test plan");
    let (mut missing, mut found) = (Vec::new(), 0);
    for row in table.filter(|line| line.starts_with('|') && line.contains("](")) {
        let file = &place.captures(row).context("no file")?[1];
        let code = read(file)?;
        for name in word.captures_iter(row) {
            found += 1;
            // Tests of recordings have no function of their name: tests/conformance runs them.
            let is_there = code.contains(&format!("fn {}(", &name[1]))
                || code.contains(&format!("name: \"{}\"", &name[1]));
            if !is_there {
                missing.push(format!("{file}: {}", &name[1]));
            }
        }
    }
    assert!(found > 40, "{found}");
    assert!(missing.is_empty(), "{missing:#?}");
    Ok(())
}

#[test]
fn the_templates_in_the_docs_are_those_that_are_shipped() -> Result<()> {
    let told = names(&rows(&read("docs/ranktables.md")?, "## Choose a template"));
    let files = std::fs::read_dir(root().join("deploy/templates"))?;
    let shipped: BTreeSet<String> = files
        .filter_map(|file| Some(file.ok()?.path().file_stem()?.to_str()?.to_owned()))
        .filter(|name| name.contains("template"))
        .collect();
    assert_eq!(told, shipped);
    Ok(())
}

/// Everything that is counted, also what has not happened yet and is therefore not shown.
fn counted() -> Result<String> {
    let mut registry = Registry::default();
    let reconciles = muster_runtime::ReconcileMetrics::default();
    reconciles.reconciled("any", "any", std::time::Duration::ZERO);
    reconciles.register(&mut registry);
    let tables = ranktables::Metrics::default();
    tables.errors.get_or_create(&Reason { reason: "any" }).inc();
    tables.parts.get_or_create(&ranktables::metrics::MAKE).observe(0.0);
    tables.register(&mut registry);
    let servings = modelserving::Metrics::default();
    servings.objects.wrote("any", "any");
    servings.objects.failed("any");
    servings.register(&mut registry);
    let reconciled = ReconcileMetrics::default();
    reconciled.reconciled("any", "any", std::time::Duration::ZERO);
    reconciled.register(&mut registry);
    let jobs = ObjectMetrics::default();
    jobs.wrote("any", "any");
    jobs.failed("any");
    jobs.register(&mut registry, "muster_dijob", "DIJobs");
    let sets = ObjectMetrics::default();
    sets.wrote("any", "any");
    sets.failed("any");
    sets.register(&mut registry, "muster_leaderworkerset", "LeaderWorkerSets");
    let server = server::Metrics::default();
    server.answered("any", 200, std::time::Duration::ZERO);
    let any = server::metrics::Replica { role: "any" };
    server.made.get_or_create(&any).inc();
    server.deleted.get_or_create(&any).inc();
    server.register(&mut registry);
    let jobs = trainjob::Metrics::default();
    jobs.objects.wrote("any", "any");
    jobs.objects.failed("any");
    jobs.register(&mut registry);
    let grouping = grouper::Metrics::default();
    grouping.saw("any");
    grouping.wrote("any", "any");
    grouping.read("any", "any");
    grouping.register(&mut registry);
    let placement = muster_scheduling::Metrics::default();
    placement.bound(&Outcome::Done);
    placement.evicted(&Outcome::Done);
    placement.waits("any");
    placement.faulted(0);
    placement.restarts("any");
    placement.asked_for_usage(true);
    placement.register(&mut registry);
    let streams = muster_hub::metrics::Metrics::default();
    let any = muster_hub::metrics::Reason { reason: "any".to_owned() };
    streams.refused_streams.get_or_create(&any).inc();
    streams.refused_orders.get_or_create(&any).inc();
    streams.register(&mut registry);
    let election = election::Metrics::default();
    election.errors.get_or_create(&election::metrics::Reason { reason: "any" }).inc();
    election.register(&mut registry);
    let told = progress::Metrics::default();
    told.requests.get_or_create(&progress::metrics::Status { status: 200 }).inc();
    told.register(&mut registry);
    let hooks = webhook::metrics::Metrics::default();
    hooks.count("any", "any");
    let path = webhook::metrics::Path { path: "any".to_owned() };
    hooks.duration.get_or_create(&path).observe(0.0);
    hooks.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

/// Name and type of each metric.
fn types(text: &str) -> BTreeSet<(String, String)> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let end = |kind: &str| if kind == "counter" { "_total" } else { "" };
    types.map(|(name, kind)| (format!("{name}{}", end(kind)), kind.to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_metrics_in_the_docs_are_those_that_a_coordinator_shows() -> Result<()> {
    World::new()
        .nodes(1)
        .agents()
        .run(async |world| {
            let leader = world.coordinators()?.leader().context("nobody leads")?;
            let address = leader.coordinator().addresses().status;
            // What queues have is there when the first one is.
            let page = world
                .until("the metrics of queues", async || {
                    let page = get(address, "/metrics").await?;
                    let whole = page.contains("\nkai_queue_info{");
                    Ok(if whole { Seen::Yes(page) } else { Seen::NotYet(page) })
                })
                .await?;
            let shown = types(&page);
            let real: BTreeSet<_> = shown.union(&types(&counted()?)).cloned().collect();
            let rows = rows(&read("docs/coordinator.md")?, "## Metrics");
            let told: BTreeSet<(String, String)> = rows
                .iter()
                .map(|row| {
                    let name = row.split('`').nth(1).unwrap_or_default();
                    let name = name.split_once('{').map_or(name, |(name, _)| name);
                    (name.to_owned(), row.split('|').nth(2).unwrap_or_default().trim().to_owned())
                })
                .collect();
            assert_eq!(told, real, "docs/coordinator.md, Metrics; it should have {real:#?}");
            Ok(())
        })
        .await
}

/// What a page says, over plain HTTP.
pub(super) async fn get(address: std::net::SocketAddr, path: &str) -> Result<String> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_in_the_docs_get_their_tables() -> Result<()> {
    let cases =
        [("jobset.yaml", "train", "agent"), ("jobset-configmap.yaml", "serve", "configmap")];
    World::new()
        .nodes(4)
        .agents()
        .run(async |world| {
            for (file, group, delivery) in cases {
                // A simulated container of a Job ends after a second, unless it is told to stay.
                let manifest = read(&format!("docs/examples/{file}"))?;
                let mut set: Value = serde_saphyr::from_str(&manifest)?;
                set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"]["annotations"]
                    ["sandbox.muster.dev/run-seconds"] = "600".into();
                world.create_object(set).await?;
                let pods =
                    world.pods_in(&format!("muster.dev/rank-group={group}"), 2, "Running").await?;
                let map =
                    world.api::<ConfigMap>().get(&format!("{group}-ranktable")).await?;
                let table = map.data.unwrap_or_default().remove("hccl.json").unwrap_or_default();
                let parsed: Value = serde_json::from_str(&table)?;
                assert_eq!(parsed["server_count"], "2", "{file}");
                assert_eq!(table.matches("rank_id").count(), 16, "{file}");
                for pod in pods.iter().filter(|_| delivery == "agent") {
                    let spec = pod.spec.as_ref().context("no spec")?;
                    let node = spec.node_name.as_deref().context("no node")?;
                    let node = world.kubelets().and_then(|all| all.node(node)).context("no node")?;
                    let uid = pod.uid().context("no uid")?;
                    let there = table_file(&node.spec().root, &uid, "hccl.json");
                    assert_eq!(std::fs::read_to_string(there)?, table, "{}", pod.name_any());
                }
                let events = world.api::<Event>();
                world
                    .until(&format!("{group} delivered"), async || {
                        let all = events.list(&ListParams::default()).await?.items;
                        let ours = all.iter().any(|event| {
                            event.reason.as_deref() == Some(events::DELIVERED)
                                && event.involved_object.name.as_deref() == Some(group)
                        });
                        Ok(if ours { Seen::Yes(()) } else { Seen::NotYet("no event".to_owned()) })
                    })
                    .await?;
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_servings_in_the_docs_get_their_tables() -> Result<()> {
    let cases = [
        ("modelserving-mindie.yaml", &["qwen-inference-worker"][..], 16),
        ("modelserving-prefill-decode.yaml", &["pd-0-prefill-0", "pd-0-decode-0"][..], 4),
        ("modelserving-vllm.yaml", &["vllm-0"][..], 4),
    ];
    World::new()
        .nodes(4)
        .agents()
        .run(async |world| {
            for (file, groups, ranks) in cases {
                let manifest = read(&format!("docs/examples/{file}"))?;
                world.create_object(serde_saphyr::from_str(&manifest)?).await?;
                for group in groups {
                    let members = format!("muster.dev/rank-group={group}");
                    world.pods_in(&members, 2, "Running").await?;
                    let map = world.api::<ConfigMap>().get(&format!("{group}-ranktable")).await?;
                    let table = map.data.unwrap_or_default().remove("ranktable.json");
                    let table: Value = serde_json::from_str(&table.context("no table")?)?;
                    assert_eq!(table["status"], "completed", "{file}");
                    assert_eq!(table.to_string().matches("rank_id").count(), ranks, "{file}");
                }
            }
            Ok(())
        })
        .await
}

/// `docs/operations.md` says what to do about each alert. `suite::chart` compares their metrics with what is counted.
#[test]
fn every_alert_is_explained() -> Result<()> {
    let help = read("docs/operations.md")?;
    let rules: Value = serde_saphyr::from_str(&read("deploy/chart/monitoring/alerts.yaml")?)?;
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for group in rules["groups"].as_array().context("no groups")? {
        for rule in group["rules"].as_array().context("no rules")? {
            let alert = rule["alert"].as_str().context("no name")?;
            seen += 1;
            if !help.contains(&format!("`{alert}`")) {
                wrong.push(format!("docs/operations.md does not explain {alert}"));
            }
        }
    }
    assert!(seen > 5 && wrong.is_empty(), "{seen} alerts; {wrong:#?}");
    Ok(())
}
