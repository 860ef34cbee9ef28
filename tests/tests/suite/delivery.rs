//! The delivery benchmark in small, without its stop-watch.

use anyhow::Result;
use muster_tests::delivery::cluster::{self, Cluster};
use muster_tests::delivery::readers::{self, Readers};
use tokio::runtime::Handle;

const NODES: u32 = 40;
const DEVICES: u32 = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_nodes_get_each_table_once_packed_once_and_no_reader_sees_anything_else() -> Result<()>
{
    cluster::plan(NODES)
        .run(async |world| {
            let mut cluster = Cluster::start(world, &Handle::current(), DEVICES).await?;
            cluster.fill().await?;
            let ranks = (NODES * DEVICES) as usize;
            let files = cluster.files().await?.into_iter().step_by(4).collect();
            let readers = Readers::start(files, ranks);
            // That all files are the same is looked at there.
            let first = cluster.complete().await?;
            let second = cluster.replace().await?;
            let seen = tokio::task::spawn_blocking(move || readers.end()).await?;
            cluster.stop().await;

            assert_ne!(first.table, second.table, "another server is in it");
            for generation in [&first, &second] {
                assert_eq!(readers::check(&generation.table, ranks), Ok(()));
                let figures = &generation.coordinator;
                assert_eq!(figures.get("muster_hub_packed_tables_total"), 1.0);
                let sent = figures.get("muster_hub_table_bytes_total");
                assert_eq!(sent % f64::from(NODES), 0.0, "{sent} bytes: each node gets the same");
                assert!(sent < (generation.table.len() * NODES as usize / 4) as f64, "{sent}");
                assert_eq!(figures.get("muster_hub_delivered_tables_total"), f64::from(NODES));
                let handed = "muster_ranktable_handout_duration_seconds_count";
                assert_eq!(figures.get(handed), 1.0);
                let written = generation.agents.get("muster_agent_readable_duration_seconds_count");
                assert_eq!(written, f64::from(NODES));
            }
            assert_eq!(seen.faults, Vec::<String>::new());
            assert!(seen.reads > 0);
            for content in &seen.contents {
                let made = **content == *first.table || **content == *second.table;
                assert!(made, "a table of {} bytes that nobody made", content.len());
            }
            Ok(())
        })
        .await
}
