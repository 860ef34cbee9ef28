use std::fs;
use std::sync::mpsc;

use muster_proto::device::Health;
use muster_sandbox::hardware::Profile;
use tempfile::TempDir;

use super::*;

/// Long enough for a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn node(profile: Profile) -> (TempDir, DiscoverySettings) {
    let root = tempfile::tempdir().unwrap();
    profile.lay_out(root.path(), 0).unwrap();
    let settings = DiscoverySettings::new(Host::at(root.path()));
    (root, settings)
}

fn reasons(problems: &Problems) -> Vec<&'static str> {
    problems.list().iter().map(|problem| problem.reason).collect()
}

#[tokio::test]
async fn a_read_that_hangs_stops_nobody_else_and_is_told() {
    let (_root, settings) = node(Profile::Cpu);
    let problems = Problems::default();
    let (go, waiting) = mpsc::channel::<()>();
    let sources = Sources::new(&settings.host);
    let limit = Duration::from_millis(20);
    let reading = blocking(sources, &problems, limit, move |_| waiting.recv_timeout(LONG).is_ok());
    let others = async {
        while reasons(&problems) != ["files-hang"] {
            tokio::task::yield_now().await;
        }
        go.send(()).unwrap();
    };
    let ((_, read), ()) = tokio::time::timeout(LONG, async { tokio::join!(reading, others) })
        .await
        .expect("the runtime goes on");
    assert_eq!((read, reasons(&problems)), (Some(true), vec![]));
}

#[tokio::test]
async fn a_reading_thread_that_fails_is_told_and_nothing_is_published() {
    let (_root, settings) = node(Profile::Cpu);
    let problems = Problems::default();
    let sources = Sources::new(&settings.host);
    let (sources, read) =
        blocking(sources, &problems, LONG, |_| -> () { panic!("as a test") }).await;
    assert_eq!((read, reasons(&problems)), (None, vec!["files-failed"]));
    let (_, read) = blocking(sources, &problems, LONG, |_| 7).await;
    assert_eq!((read, reasons(&problems)), (Some(7), vec![]));
}

#[tokio::test]
async fn asking_tools_reads_no_device_files() {
    let (root, settings) = node(Profile::Ascend910b8);
    let mut sources = Sources::new(&settings.host);
    let read = sources.read(jiff::Timestamp::UNIX_EPOCH);
    fs::remove_dir_all(root.path().join("dev")).unwrap();
    fs::remove_dir_all(root.path().join("etc")).unwrap();
    let asked = sources.ask(&read, settings.tools.as_ref(), jiff::Timestamp::UNIX_EPOCH).await;
    let [ascend, _] = asked.unwrap();
    assert_eq!(ascend.devices.len(), 8);
    assert!(ascend.devices.iter().all(|device| device.health.usable()), "{ascend:?}");
}

#[tokio::test]
async fn one_scan_is_complete_and_settled() {
    let (_root, settings) = node(Profile::AscendA316);
    let found = once(&settings).await;
    assert!(found.inventory.settled && !found.due);
    assert_eq!(found.inventory.devices.len(), 16);
    assert!(found.inventory.devices.iter().all(|device| device.super_device_id.is_some()));
    // Without tools too, with what files say.
    let found = once(&DiscoverySettings { tools: None, ..settings }).await;
    assert!(found.inventory.settled);
    assert!(found.inventory.devices.iter().all(|device| device.health == Health::Unknown));
}

#[tokio::test]
async fn tools_are_asked_soon_when_files_change_but_not_all_the_time() {
    let (root, mut settings) = node(Profile::Ascend910b8);
    let log = root.path().join("log");
    settings.tools = settings.tools.map(|tools| tools.env("FAKE_LOG", log.to_str().unwrap()));
    settings.files_every = Duration::from_millis(10);
    settings.tools_every = Duration::from_secs(3600);
    let (sender, mut inventory) = watch::channel(Arc::new(Inventory::default()));
    let (problems, metrics) = (Problems::default(), Metrics::default());
    let directories = Directories::new(&problems);
    let following = follow(settings, directories, problems, metrics, sender);
    // Full scans so far.
    let scans = || {
        let asked = fs::read_to_string(&log).unwrap_or_default();
        asked.lines().filter(|line| line.ends_with("npu-smi info -m")).count()
    };
    let changing = async {
        inventory.wait_for(|now| now.settled).await.unwrap();
        let began = Instant::now();
        let conf = root.path().join("etc/hccn.conf");
        for count in 2..=4 {
            fs::write(&conf, format!("address_0=10.20.9.{count}\n")).unwrap();
            while scans() < count {
                let now = inventory.borrow_and_update().clone();
                let known = now.devices.iter().all(|device| device.health != Health::Unknown);
                assert!(known, "health is not forgotten");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        // The first after a pause may come at once.
        assert!(began.elapsed() >= 2 * TOOLS_AT_MOST, "{:?}", began.elapsed());
    };
    tokio::time::timeout(LONG, async {
        tokio::select! {
            () = following => panic!("it ended"),
            () = changing => {}
        }
    })
    .await
    .expect("tools are asked");
}
