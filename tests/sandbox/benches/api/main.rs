//! How fast the server is: writes with and without watchers, a list of 10,000 pods, an apply; each
//! against a floor measured in the same run. Run it with `cargo bench -p muster-sandbox`.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::Bytes;
use criterion::{Criterion, Throughput};
use http::Method;
use muster_sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

mod door;
mod floor;
mod load;
mod pods;
mod report;

use door::{Door, Way};
use floor::Floor;
use load::Load;
use pods::{NAMESPACE, PODS};
use report::Samples;

/// As in the programs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let sandbox = runtime.block_on(furnished())?;
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(4))
        .configure_from_args();
    let failure = RefCell::new(None);
    let bench = Bench { runtime: &runtime, sandbox: &sandbox, failure: &failure };
    let floor = bench.floor(&mut criterion)?;
    let mut report = report::Report { floor, ..report::Report::default() };
    for way in [Way::Process, Way::Http] {
        for watched in [false, true] {
            report.writes.push((way, watched, bench.writes(&mut criterion, way, watched)?));
        }
    }
    report.copy = bench.copy(&mut criterion)?;
    for way in [Way::Process, Way::Http] {
        report.lists.push((way, bench.list(&mut criterion, way)?));
    }
    for way in [Way::Process, Way::Http] {
        report.applies.push((way, bench.apply(&mut criterion, way)?));
    }
    criterion.final_summary();
    if let Some(failure) = failure.take() {
        return Err(failure);
    }
    println!("{report}");
    Ok(())
}

/// A bare API with all pods in it.
async fn furnished() -> anyhow::Result<Sandbox> {
    let sandbox = Sandbox::builder().controllers(None).start().await?;
    sandbox.create("/api/v1/namespaces", &json!({"metadata": {"name": NAMESPACE}})).await?;
    let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
    sandbox.create(&accounts, &json!({"metadata": {"name": "default"}})).await?;
    let mut door = Door::open(&sandbox, Way::Process).await?;
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    for n in 0..PODS {
        let pod = pods::pod(&pods::name_of(n), pods::node_of(n)).to_string();
        door.done(Method::POST, &path, JSON, pod).await?;
    }
    Ok(sandbox)
}

/// The time that `run` says it took, and what it took of the processors.
fn timed(run: impl FnOnce() -> anyhow::Result<Duration>) -> anyhow::Result<(Duration, Duration)> {
    let before = report::cpu_time()?;
    let time = run()?;
    Ok((time, report::cpu_time()?.saturating_sub(before)))
}

/// What every measurement needs. A failure is kept until all is over: criterion cannot pass it on.
struct Bench<'a> {
    runtime: &'a Runtime,
    sandbox: &'a Sandbox,
    failure: &'a RefCell<Option<anyhow::Error>>,
}

// === impl Bench ===

impl Bench<'_> {
    /// Lets criterion call `run` with numbers of iterations, and keeps the times.
    fn measure(
        &self,
        criterion: &mut Criterion,
        name: &str,
        throughput: Throughput,
        mut run: impl FnMut(u64) -> anyhow::Result<Duration>,
    ) -> Samples {
        let mut samples = Samples::default();
        let mut group = criterion.benchmark_group("api");
        group.throughput(throughput);
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| match timed(|| run(times)) {
                Ok((time, cpu)) => {
                    samples.add(times, time, cpu);
                    time
                }
                Err(error) => {
                    eprintln!("{name}: {error:#}");
                    self.failure.borrow_mut().get_or_insert(error);
                    Duration::from_millis(times)
                }
            });
        });
        group.finish();
        samples
    }

    fn floor(&self, criterion: &mut Criterion) -> anyhow::Result<Samples> {
        let pod = self.runtime.block_on(async {
            let mut door = Door::open(self.sandbox, Way::Process).await?;
            door.done(Method::GET, &pods::path_of(&pods::name_of(0)), JSON, Bytes::new()).await
        })?;
        println!("a stored pod has {} bytes", pod.len());
        let floor = Floor::default();
        Ok(self.measure(criterion, "floor of a write", Throughput::Elements(1), |times| {
            self.runtime.block_on(floor.run(&pod, times))
        }))
    }

    fn writes(
        &self,
        criterion: &mut Criterion,
        way: Way,
        watched: bool,
    ) -> anyhow::Result<Samples> {
        let seed = self.sandbox.api().store.revision();
        let load = Load::start(self.sandbox, way, watched, seed);
        let mut load = self.runtime.block_on(load)?;
        let name = format!("writes, {way}, {} watchers", if watched { pods::NODES } else { 0 });
        let samples = self.measure(criterion, &name, Throughput::Elements(1), |times| {
            self.runtime.block_on(load.run(times))
        });
        if load.seen() > 0 && self.failure.borrow().is_none() {
            println!("{name}: {} events seen, none lost", load.seen());
        }
        self.runtime.block_on(async { drop(load) });
        Ok(samples)
    }

    fn copy(&self, criterion: &mut Criterion) -> anyhow::Result<Samples> {
        let list = self.runtime.block_on(self.listed(Way::Process))?;
        let size = Throughput::Bytes(list.len() as u64);
        Ok(self.measure(criterion, "copy of the list's bytes", size, |times| {
            let begin = Instant::now();
            for _ in 0..times {
                black_box(black_box(&list).to_vec());
            }
            Ok(begin.elapsed())
        }))
    }

    fn list(&self, criterion: &mut Criterion, way: Way) -> anyhow::Result<Samples> {
        let list: Value = serde_json::from_slice(&self.runtime.block_on(self.listed(way))?)?;
        let items = list["items"].as_array().map_or(0, Vec::len);
        ensure!(items >= PODS, "the list has {items} pods, not {PODS}");
        let mut door = self.runtime.block_on(Door::open(self.sandbox, way))?;
        let name = format!("list of {PODS} pods, {way}");
        let elements = Throughput::Elements(PODS as u64);
        Ok(self.measure(criterion, &name, elements, |times| {
            self.runtime.block_on(async {
                let begin = Instant::now();
                for _ in 0..times {
                    black_box(door.done(Method::GET, "/api/v1/pods", JSON, Bytes::new()).await?);
                }
                Ok(begin.elapsed())
            })
        }))
    }

    async fn listed(&self, way: Way) -> anyhow::Result<Bytes> {
        let mut door = Door::open(self.sandbox, way).await?;
        door.done(Method::GET, "/api/v1/pods", JSON, Bytes::new()).await
    }

    /// One manager applies its whole configuration again and again; each time one label is new.
    fn apply(&self, criterion: &mut Criterion, way: Way) -> anyhow::Result<Samples> {
        let mut door = self.runtime.block_on(Door::open(self.sandbox, way))?;
        let pod_name = "applied";
        let path = format!("{}?fieldManager=bench", pods::path_of(pod_name));
        let mut turn = self.sandbox.api().store.revision();
        let name = format!("server-side apply of a pod, {way}");
        Ok(self.measure(criterion, &name, Throughput::Elements(1), |times| {
            self.runtime.block_on(async {
                let begin = Instant::now();
                for _ in 0..times {
                    turn += 1;
                    let mut pod = pods::pod(pod_name, 0);
                    pod["metadata"]["labels"]["muster.dev/turn"] = turn.to_string().into();
                    door.done(Method::PATCH, &path, APPLY, pod.to_string()).await?;
                }
                Ok(begin.elapsed())
            })
        }))
    }
}
