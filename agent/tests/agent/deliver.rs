//! Orders in, files out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use muster_agent::deliver::{Deliverer, DeliverySettings, Metrics, PodFacts, PodFactsSource};
use muster_agent::host::Host;
use muster_agent::problem::{Area, Problems};
use muster_proto::delivery::{Delivered, Delivery, Digest, Place, seal};
use prometheus_client::registry::Registry;

const FILE: &str = "ranktable.json";

#[derive(Default)]
pub struct Pods(Mutex<BTreeMap<String, PodFacts>>);

impl PodFactsSource for Pods {
    fn pod(&self, uid: &str) -> Option<PodFacts> {
        self.0.lock().unwrap().get(uid).cloned()
    }
}

/// A node with volumes and a deliverer.
pub struct Node {
    folder: tempfile::TempDir,
    pods: Arc<Pods>,
    pub problems: Problems,
    registry: Registry,
    pub deliverer: Deliverer,
}

pub fn uid(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

pub fn place(number: u32) -> Place {
    Place { pod_uid: uid(number), volume: "ranktable".into(), file: FILE.into() }
}

pub fn order(number: u32, generation: u64, content: &[u8]) -> Delivery {
    let digest = Digest::of(content);
    Delivery { place: place(number), generation, digest, mode: 0o644, group: None }
}

pub fn pack(content: &[u8]) -> Bytes {
    let frame = frame(&frame(content));
    [&seal(&Digest::of(content), &frame), frame.as_slice()].concat().into()
}

fn frame(content: &[u8]) -> Vec<u8> {
    let info = lz4_flex::frame::FrameInfo::new().content_size(Some(content.len() as u64));
    let mut packer = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    packer.write_all(content).unwrap();
    packer.finish().unwrap()
}

impl Node {
    pub fn new() -> Self {
        Self::with_patience(Duration::ZERO)
    }

    fn with_patience(patience: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pods = Arc::new(Pods::default());
        let problems = Problems::default();
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        let settings = DeliverySettings {
            state: folder.path().join("state"),
            pod_patience: patience,
            volume_patience: patience,
            ..DeliverySettings::default()
        };
        let host = Host::at(folder.path());
        let deliverer = Deliverer::new(host, settings, pods.clone(), problems.clone(), metrics);
        let node = Self { folder, pods, problems, registry, deliverer };
        fs::create_dir_all(node.folder.path().join("var/lib/kubelet/pods")).unwrap();
        fs::create_dir(node.folder.path().join("outside")).unwrap();
        node
    }

    /// The same node after the agent was started again.
    fn restarted(self) -> Self {
        let Self { folder, pods, problems, .. } = self;
        let settings = DeliverySettings {
            state: folder.path().join("state"),
            pod_patience: Duration::ZERO,
            volume_patience: Duration::ZERO,
            ..DeliverySettings::default()
        };
        let metrics = Metrics::default();
        let host = Host::at(folder.path());
        let deliverer = Deliverer::new(host, settings, pods.clone(), problems.clone(), metrics);
        Self { folder, pods, problems, registry: Registry::default(), deliverer }
    }

    pub fn volume(&self, number: u32) -> PathBuf {
        let pods = self.folder.path().join("var/lib/kubelet/pods");
        pods.join(uid(number)).join("volumes/kubernetes.io~empty-dir/ranktable")
    }

    pub fn table(&self, number: u32) -> PathBuf {
        self.volume(number).join(FILE)
    }

    pub fn add_pod(&self, number: u32) {
        let facts = PodFacts { uid: uid(number), rank_group: Some("g".into()), deleting: false };
        self.pods.0.lock().unwrap().insert(uid(number), facts);
    }

    fn add(&self, number: u32) {
        self.add_pod(number);
        fs::create_dir_all(self.volume(number)).unwrap();
    }

    async fn deliver(&self, epoch: u64, order: Delivery, content: &[u8]) -> &'static str {
        match self.deliverer.deliver(epoch, order, pack(content)).await {
            Ok(_) => "ok",
            Err(refused) => refused.reason,
        }
    }

    fn problems(&self) -> Vec<&'static str> {
        self.problems.list().into_iter().map(|problem| problem.reason).collect()
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

#[tokio::test]
async fn a_table_is_delivered_once_and_told_everywhere() {
    let node = Node::new();
    node.add(1);
    let delivered = node.deliverer.deliver(3, order(1, 5, b"{}"), pack(b"{}")).await.unwrap();
    let wanted = Delivered { place: place(1), generation: 5, digest: Digest::of(b"{}") };
    assert_eq!(delivered, wanted);
    assert_eq!(fs::read(node.table(1)).unwrap(), b"{}");
    assert_eq!((node.deliverer.delivered(), node.deliverer.epoch()), (vec![wanted], 3));
    let inode = fs::metadata(node.table(1)).unwrap().ino();
    assert_eq!(node.deliver(3, order(1, 5, b"{}"), b"{}").await, "ok");
    assert_eq!(fs::metadata(node.table(1)).unwrap().ino(), inode);
    let tables = node.deliverer.tables();
    assert_eq!((tables.len(), tables[0].bytes, tables[0].generation), (1, Some(2), Some(5)));
    let metrics = node.metrics();
    for line in [
        "deliveries_total{result=\"written\"} 1",
        "deliveries_total{result=\"already-there\"} 1",
        "delivery_duration_seconds_count 2",
        "delivered_bytes_total 2",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn a_table_that_the_pod_lost_is_written_again() {
    let node = Node::new();
    node.add(1);
    assert_eq!(node.deliver(1, order(1, 1, b"x"), b"x").await, "ok");
    // As after a reboot, when the volume was in memory.
    for told in [true, false] {
        fs::remove_dir_all(node.volume(1)).unwrap();
        fs::create_dir(node.volume(1)).unwrap();
        if told {
            node.deliverer.verify().await;
            assert_eq!((node.deliverer.delivered(), node.deliverer.tables()), (vec![], vec![]));
        }
        assert_eq!(node.deliver(1, order(1, 0, b"y"), b"y").await, "older-generation");
        assert_eq!(node.deliver(1, order(1, 1, b"x"), b"x").await, "ok");
        assert_eq!(fs::read(node.table(1)).unwrap(), b"x");
        assert_eq!(node.deliverer.delivered().len(), 1);
    }
    fs::remove_file(node.table(1)).unwrap();
    let node = node.restarted();
    assert_eq!(node.deliverer.delivered(), []);
    assert_eq!(node.deliver(1, order(1, 0, b"y"), b"y").await, "older-generation");
    assert_eq!(node.problems(), Vec::<&str>::new());
}

#[tokio::test]
async fn an_order_whose_stream_ended_still_comes_before_the_next() {
    let node = Node::new();
    node.add(1);
    let large = b"older ".repeat(1 << 20);
    let packed = pack(&large);
    for generation in (0..20).step_by(2) {
        let older = node.deliverer.deliver(1, order(1, generation, &large), packed.clone());
        let gone = tokio::time::timeout(Duration::from_millis(2), older).await;
        assert_eq!(node.deliver(1, order(1, generation + 1, b"newer"), b"newer").await, "ok");
        assert!(gone.is_err(), "the older order was to be abandoned");
        while fs::read_dir(node.volume(1)).unwrap().count() != 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(fs::read(node.table(1)).unwrap(), b"newer");
        assert_eq!(node.deliverer.delivered()[0].generation, generation + 1);
    }
}

#[tokio::test]
async fn a_restart_forgets_nothing() {
    let node = Node::new();
    node.add(1);
    node.add(2);
    assert_eq!(node.deliver(4, order(1, 7, b"x"), b"x").await, "ok");
    assert_eq!(node.deliver(4, order(2, 1, b"y"), b"y").await, "ok");
    let before = node.deliverer.delivered();
    let node = node.restarted();
    assert_eq!((node.deliverer.delivered(), node.deliverer.epoch()), (before, 4));
    assert_eq!(node.deliver(3, order(1, 8, b"z"), b"z").await, "older-epoch");
    assert_eq!(node.deliver(4, order(1, 6, b"z"), b"z").await, "older-generation");
    assert_eq!(node.deliver(4, order(1, 7, b"z"), b"z").await, "generation-reused");
    assert_eq!(fs::read(node.table(1)).unwrap(), b"x");
    node.deliverer.prune(&BTreeSet::from([uid(1)]));
    assert_eq!(node.deliverer.delivered().len(), 1);
    // What is forgotten is written beside all else: the file is damaged after that.
    let file = node.folder.path().join("state/delivered.json");
    while fs::read_to_string(&file).unwrap().contains(&uid(2)) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // A file of records that is damaged is told, and the rest goes on.
    fs::write(&file, "{").unwrap();
    let node = node.restarted();
    assert!(node.problems().contains(&"records-corrupt"));
    assert_eq!(node.deliver(4, order(2, 1, b"y"), b"y").await, "ok");
    assert!(!node.problems().contains(&"records-corrupt"));
}

#[tokio::test]
async fn each_bad_place_is_a_problem_of_its_own_and_the_others_get_their_tables() {
    let node = Node::new();
    let outside = node.folder.path().join("outside");
    for number in 1..=6 {
        node.add(number);
    }
    node.add_pod(7);
    fs::remove_dir(node.volume(1)).unwrap();
    symlink(&outside, node.volume(1)).unwrap();
    fs::create_dir(node.table(2)).unwrap();
    node.pods.0.lock().unwrap().get_mut(&uid(3)).unwrap().rank_group = None;
    let wanted = [
        (1, "symlink-in-path"),
        (2, "not-a-file"),
        (3, "not-a-member"),
        (4, "digest-mismatch"),
        (5, "ok"),
        (6, "ok"),
        (7, "volume-missing"),
        (8, "unknown-pod"),
    ];
    let orders = wanted.map(|(number, _)| {
        let content: &[u8] = if number == 4 { b"other" } else { b"{}" };
        node.deliver(1, order(number, 1, b"{}"), content)
    });
    let told = futures::future::join_all(orders).await;
    assert_eq!(told, wanted.map(|(_, reason)| reason));
    let mut raised = node.problems();
    raised.sort_unstable();
    let mut bad: Vec<&str> = told.into_iter().filter(|told| *told != "ok").collect();
    bad.sort_unstable();
    assert_eq!(raised, bad);
    for (_, reason) in wanted.iter().filter(|(_, reason)| *reason != "ok") {
        assert!(node.metrics().contains(&format!("{{result=\"{reason}\"}} 1")), "{reason}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    for number in [5, 6] {
        assert_eq!(fs::read(node.table(number)).unwrap(), b"{}");
    }
    let tables = node.deliverer.tables();
    let failed = tables.iter().filter(|table| table.last_error.is_some()).count();
    assert_eq!((tables.len(), failed), (8, 6));
    // What is mended is well again.
    fs::remove_dir(node.table(2)).unwrap();
    assert_eq!(node.deliver(1, order(2, 1, b"{}"), b"{}").await, "ok");
    assert!(!node.problems().contains(&"not-a-file"));
    node.deliverer.prune(&(1..=7).map(uid).collect());
    assert!(!node.problems().contains(&"unknown-pod"));
    assert_eq!(node.problems.open(Area::Deliver), 4);
}

#[tokio::test]
async fn an_order_waits_for_its_pod_and_its_volume() {
    let node = Node::with_patience(Duration::from_secs(20));
    let later = async {
        tokio::time::sleep(Duration::from_millis(60)).await;
        node.add_pod(1);
        tokio::time::sleep(Duration::from_millis(60)).await;
        fs::create_dir_all(node.volume(1)).unwrap();
    };
    let (told, ()) = tokio::join!(node.deliver(1, order(1, 1, b"x"), b"x"), later);
    assert_eq!(told, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_for_one_place_end_with_the_newest() {
    let node = Node::new();
    node.add(1);
    let mut tasks = Vec::new();
    for generation in [3u64, 1, 9, 2, 8, 4, 7, 5, 6] {
        let deliverer = node.deliverer.clone();
        let content = generation.to_string().into_bytes();
        let order = order(1, generation, &content);
        tasks.push(tokio::spawn(async move {
            let told = deliverer.deliver(1, order, pack(&content)).await;
            told.map_or_else(|refused| refused.reason, |_| "ok")
        }));
    }
    for task in tasks {
        let told = task.await.unwrap();
        assert!(["ok", "older-generation"].contains(&told), "{told}");
    }
    assert_eq!(fs::read(node.table(1)).unwrap(), b"9");
    assert_eq!(node.deliverer.delivered()[0].generation, 9);
}

#[tokio::test]
async fn a_volume_in_memory_that_the_agent_does_not_see_gets_no_table() {
    let node = Node::new();
    node.add(1);
    let seen = fs::metadata(node.volume(1)).unwrap().dev();
    let (own_major, own_minor) = (nix::sys::stat::major(seen), nix::sys::stat::minor(seen));
    let at = format!("/var/lib/kubelet/pods/{}/volumes/kubernetes.io~empty-dir/ranktable", uid(1));
    let proc = node.folder.path().join("proc/1");
    fs::create_dir_all(&proc).unwrap();
    let mounts = |device: String| format!("9 1 {device} / {at} rw - tmpfs tmpfs rw\n");
    fs::write(proc.join("mountinfo"), mounts(format!("{own_major}:{}", own_minor + 1))).unwrap();
    assert_eq!(node.deliver(1, order(1, 1, b"x"), b"x").await, "volume-not-mounted");
    assert!(!node.table(1).exists());
    fs::write(proc.join("mountinfo"), mounts(format!("{own_major}:{own_minor}"))).unwrap();
    assert_eq!(node.deliver(1, order(1, 1, b"x"), b"x").await, "ok");
}

#[tokio::test]
async fn a_retired_table_goes_unless_a_newer_one_is_there() {
    let node = Node::new();
    node.add(1);
    assert_eq!(node.deliver(1, order(1, 2, b"x"), b"x").await, "ok");
    assert_eq!(node.deliverer.retire(&place(1), 1).await, Ok(()));
    assert_eq!(node.deliverer.retire(&place(2), 2).await, Ok(()));
    assert!(node.table(1).exists());
    assert_eq!(node.deliverer.retire(&place(1), 2).await, Ok(()));
    assert_eq!(fs::read_dir(node.volume(1)).unwrap().count(), 0);
    assert_eq!(node.deliverer.delivered(), []);
    // Also when the pod is gone with all that it had.
    assert_eq!(node.deliver(1, order(1, 3, b"x"), b"x").await, "ok");
    fs::remove_dir_all(node.volume(1)).unwrap();
    assert_eq!(node.deliverer.retire(&place(1), 4).await, Ok(()));
    assert_eq!((node.deliverer.delivered(), node.problems()), (vec![], vec![]));
}

/// Prints how long it takes beside a plain write, and how much memory; it asserts only that it works.
#[tokio::test]
async fn a_table_of_100000_ranks_is_written_in_small_pieces() {
    let node = Node::new();
    node.add(1);
    let mut content =
        String::from("{\"version\":\"1.2\",\"status\":\"completed\",\"server_list\":[");
    for rank in 0..100_000u32 {
        let [_, a, b, c] = rank.to_be_bytes();
        content.push_str(&format!(
            "{{\"device_id\":\"{}\",\"device_ip\":\"10.{a}.{b}.{c}\",\"super_device_id\":\"{}\",\"rank_id\":\"{rank}\"}},\n",
            rank % 16,
            rank.wrapping_mul(2_654_435_761)
        ));
    }
    content.push_str("{}]}");
    let content = content.into_bytes();
    let packed = pack(&content);
    let kibibytes = |of: &str| {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with(of)).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<i64>().unwrap()
    };
    // The peak begins anew, where the system allows it. Other tests of this process count too: run it alone.
    let _refused = fs::write("/proc/self/clear_refs", "5");
    let before = kibibytes("VmRSS:");
    let begun = Instant::now();
    let told = node.deliverer.deliver(1, order(1, 1, &content), packed.clone()).await;
    let ours = begun.elapsed();
    let grown = kibibytes("VmHWM:") - before;
    told.unwrap();
    let begun = Instant::now();
    fs::write(node.folder.path().join("plain"), &content).unwrap();
    let plain = begun.elapsed();
    println!(
        "{} bytes ({} packed): delivered in {ours:?}, plain write {plain:?}, ratio {:.1}; memory at most {grown:+} KiB",
        content.len(),
        packed.len(),
        ours.as_secs_f64() / plain.as_secs_f64(),
    );
    assert_eq!(fs::read(node.table(1)).unwrap(), content);
}
