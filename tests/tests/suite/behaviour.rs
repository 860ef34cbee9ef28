//! The behaviour table on the sandbox.

use muster_tests::behaviour::{self, Table};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sandbox_behaves_as_the_table_says() {
    let tables = Table::load_all(&behaviour::directory()).unwrap();
    let (target, _sandbox) = behaviour::sandbox().await.unwrap();
    let outcomes = target.run(&tables, "", |_| ()).await;
    let failed: Vec<String> = outcomes
        .iter()
        .filter(|outcome| !outcome.failures.is_empty())
        .map(|outcome| {
            format!("{}: {}\n    {}", outcome.area, outcome.name, outcome.failures.join("\n    "))
        })
        .collect();
    assert!(outcomes.len() >= 275, "the table has only {} cases", outcomes.len());
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
}
