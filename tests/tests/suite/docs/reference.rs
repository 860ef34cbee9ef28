//! The reference is what the code says. `MUSTER_WRITE=1` writes it instead of comparing.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use muster_tests::World;
use muster_tests::reference::metrics::{self, Metric};
use muster_tests::reference::{self, compare, crds, flags, names, reasons};

use super::{counted, get, read};

#[test]
fn the_reference_is_what_the_code_says() -> Result<()> {
    let mut wrong = Vec::new();
    for (page, text) in [
        ("crds.md", crds::page()?),
        ("flags.md", flags::page()),
        ("names.md", names::page()?),
        ("conditions.md", reasons::page()?),
    ] {
        wrong.extend(compare(page, &text)?);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    Ok(())
}

/// What has not happened in this run stays on the page as long as the program's sources name it.
fn keep(program: &str, folder: &str, seen: &mut BTreeMap<String, Metric>) -> Result<()> {
    let page = read("docs/reference/metrics.md").unwrap_or_default();
    let mut sources = String::new();
    for file in walk(folder)? {
        sources += &std::fs::read_to_string(file)?;
    }
    for (name, told) in metrics::told(&page, program) {
        match seen.get_mut(&name) {
            Some(now) => now.labels.extend(told.labels),
            None => {
                let ends = name.trim_end_matches("_total").trim_end_matches("_seconds");
                let named = ends
                    .match_indices('_')
                    .any(|(at, _)| sources.contains(&format!("\"{}\"", &ends[at + 1..])));
                if named {
                    seen.insert(name, told);
                }
            }
        }
    }
    Ok(())
}

fn walk(folder: &str) -> Result<Vec<std::path::PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![reference::root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    Ok(found)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_metrics_of_the_reference_are_those_of_the_programs() -> Result<()> {
    World::new()
        .nodes(2)
        .agents()
        .run(async |world| {
            world.create(&read("docs/examples/jobset.yaml")?).await?;
            world.pods_in("muster.dev/rank-group=train", 2, "Running").await?;
            let leader = world.coordinators()?.leader().context("nobody leads")?;
            let mut coordinator = metrics::read(&counted()?);
            let status = leader.coordinator().addresses().status;
            for (name, metric) in metrics::read(&get(status, "/metrics").await?) {
                coordinator.entry(name).or_insert(metric);
            }
            let mut agent = BTreeMap::new();
            for (_, one) in world.agents()?.iter() {
                let address = one.address().context("the agent has no page")?;
                agent.extend(metrics::read(&get(address, "/metrics").await?));
            }
            ensure!(agent.len() > 5, "{agent:?}");
            keep("muster-coordinator", "coordinator/src", &mut coordinator)?;
            keep("muster-agent", "agent/src", &mut agent)?;
            let text =
                metrics::page(&[("muster-coordinator", coordinator), ("muster-agent", agent)]);
            let wrong = compare("metrics.md", &text)?;
            ensure!(wrong.is_none(), "{}", wrong.unwrap_or_default());
            Ok(())
        })
        .await
}
