use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use muster_proto::device::{End, Fabric, Mig};
use muster_sandbox::hardware::{Profile, Quirks};

use super::*;

const BUSES: [&str; 8] = ["18", "2a", "3a", "5d", "9a", "ab", "ba", "db"];

struct Node {
    folder: tempfile::TempDir,
    host: Host,
    tools: Tools,
}

impl Node {
    fn new(quirks: Quirks) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Profile::NvidiaH1008.lay_out_with(folder.path(), 0, quirks).unwrap();
        let host = Host::at(folder.path());
        let tools = Tools::new(host.clone(), Duration::from_secs(30), 4);
        let tools = tools.env("FAKE_LOG", folder.path().join("calls").to_str().unwrap());
        Self { folder, host, tools }
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.tools = self.tools.env(name, value);
        self
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join(path)
    }

    fn information(&self, gpu: usize) -> std::path::PathBuf {
        self.path(&format!("proc/driver/nvidia/gpus/0000:{}:00.0/information", BUSES[gpu]))
    }

    fn edit(&self, gpu: usize, from: &str, to: &str) {
        let text = fs::read_to_string(self.information(gpu)).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(self.information(gpu), text.replace(from, to)).unwrap();
    }

    async fn scan_all(&self, nvidia: &mut Nvidia, second: i64) -> SourceReport {
        nvidia.scan_all(&self.host, &self.tools, Timestamp::from_second(second).unwrap()).await
    }

    /// Gives a GPU to another driver.
    fn bind(&self, gpu: usize, driver: &str) {
        let driver = format!("/sys/bus/pci/drivers/{driver}");
        fs::create_dir_all(self.folder.path().join(&driver[1..])).unwrap();
        let link = self.path(&format!("sys/bus/pci/devices/0000:{}:00.0/driver", BUSES[gpu]));
        symlink(driver, link).unwrap();
    }

    /// Puts a script before the tool, which runs as `real`.
    fn before_tool(&self, script: &str) {
        let real = self.path("usr/bin/real");
        fs::rename(self.path("usr/bin/nvidia-smi"), &real).unwrap();
        let top = format!("#!/bin/sh\nreal={}\ncd {}\n", real.display(), self.path("").display());
        write_tool(&self.path("usr/bin/nvidia-smi"), &(top + script));
    }

    fn calls(&self) -> usize {
        fs::read_to_string(self.path("calls")).map_or(0, |text| text.lines().count())
    }
}

fn gpu(id: u32) -> Device {
    let second = id >= 4;
    let mut device = Device::new(Vendor::Nvidia, id, format!("/dev/nvidia{id}"));
    device.chip = Chip::NvidiaGpu;
    device.model = "NVIDIA H100 80GB HBM3".into();
    device.health = Health::Ok;
    device.uuid = Some(format!("GPU-11111111-2222-3333-4444-00000000{id:04x}"));
    device.minor = Some(id);
    device.pci = Some(format!("0000:{}:00.0", BUSES[id as usize]).parse().unwrap());
    device.numa = Some(u32::from(second));
    device.cpus = Some(if second { "56-111,168-223" } else { "0-55,112-167" }.into());
    device
}

fn from_files() -> SourceReport {
    let drivers = vec![Driver { vendor: Vendor::Nvidia, version: "550.90.07".into() }];
    // Whether they work, only the driver can say.
    let unasked = |id| Device { health: Health::Unknown, ..gpu(id) };
    SourceReport { drivers, devices: (0..8).map(unasked).collect(), ..SourceReport::default() }
}

fn complete() -> SourceReport {
    let mut report = from_files();
    for device in &mut report.devices {
        device.health = Health::Ok;
        device.island = Some(0);
        device.driver_index = Some(device.id);
    }
    for a in 0..8 {
        for b in a + 1..8 {
            report.links.push(Link { a: End::Gpu(a), b: End::Gpu(b), join: Join::NvLink(18) });
        }
    }
    report
}

fn kinds(report: &SourceReport) -> Vec<(&str, &str)> {
    report.findings.iter().map(|f| (f.reason, f.subject.as_str())).collect()
}

fn health(report: &SourceReport, id: usize) -> &Health {
    &report.devices[id].health
}

#[test]
fn files_tell_all_gpus_and_no_switches() {
    let node = Node::new(Quirks::default());
    assert_eq!(Nvidia::new().scan_files(&node.host), from_files());
}

#[tokio::test]
async fn the_tool_adds_nvlink() {
    let node = Node::new(Quirks::default());
    let mut nvidia = Nvidia::new();
    assert_eq!(node.scan_all(&mut nvidia, 0).await, complete());
    // What was told is remembered by the next look at files.
    assert_eq!(nvidia.scan_files(&node.host), complete());
}

#[tokio::test]
async fn a_terminal_s_underlines_change_nothing() {
    let node = Node::new(Quirks::default()).env("FAKE_TTY", "1");
    assert_eq!(node.scan_all(&mut Nvidia::new(), 0).await, complete());
}

#[test]
fn the_index_is_the_order_of_addresses_not_the_minor() {
    let node = Node::new(Quirks { swapped_minors: true, ..Quirks::default() });
    let mut expected = from_files();
    for (id, minor) in [(0, 3), (3, 0)] {
        expected.devices[id].minor = Some(minor);
        expected.devices[id].path = format!("/dev/nvidia{minor}");
    }
    assert_eq!(Nvidia::new().scan_files(&node.host), expected);
}

#[tokio::test]
async fn a_uuid_that_the_files_do_not_know_comes_from_the_tool() {
    let node = Node::new(Quirks { unknown_uuid: true, unknown_numa: true, ..Quirks::default() });
    let mut nvidia = Nvidia::new();
    let mut expected = from_files();
    expected.devices[2].uuid = None;
    expected.devices[7].numa = None;
    assert_eq!(nvidia.scan_files(&node.host), expected);
    let mut expected = complete();
    expected.devices[7].numa = None;
    assert_eq!(node.scan_all(&mut nvidia, 0).await, expected);
}

#[tokio::test]
async fn a_fabric_is_told_by_new_drivers_only() {
    let node = Node::new(Quirks::default()).env("FAKE_FABRIC", "gb200");
    let mut expected = complete();
    for device in &mut expected.devices {
        let cluster_uuid = "a1b2c3d4-0000-1111-2222-333344445555".into();
        device.fabric = Some(Fabric { cluster_uuid, clique_id: 32766 });
    }
    assert_eq!(node.scan_all(&mut Nvidia::new(), 0).await, expected);
    let node = Node::new(Quirks::default()).env("FAKE_FABRIC", "old");
    assert_eq!(node.scan_all(&mut Nvidia::new(), 0).await, complete());
}

#[tokio::test]
async fn slices_belong_to_their_gpu() {
    let node = Node::new(Quirks::default()).env("FAKE_MIG", "1");
    let mut expected = complete();
    let mig = |letter: &str, profile: &str| Mig {
        uuid: format!("MIG-{}-0000-1111-2222-333333333333", letter.repeat(8)),
        profile: profile.into(),
    };
    expected.devices[0].mig = vec![mig("a", "3g.40gb"), mig("b", "1g.10gb")];
    assert_eq!(node.scan_all(&mut Nvidia::new(), 0).await, expected);
}

#[tokio::test]
async fn slow_questions_are_asked_again_only_when_something_changed_or_time_passed() {
    let node = Node::new(Quirks::default());
    let mut nvidia = Nvidia::new().refresh(Duration::from_secs(60));
    let first = node.scan_all(&mut nvidia, 0).await;
    let calls = 4;
    assert_eq!(node.calls(), calls);
    // Whether all GPUs answer is asked in every look.
    assert_eq!(node.scan_all(&mut nvidia, 59).await, first);
    assert_eq!(node.calls(), calls + 1);
    node.scan_all(&mut nvidia, 60).await;
    assert_eq!(node.calls(), 2 * calls + 1);
    // A new slice, then a new driver.
    fs::create_dir_all(node.path("proc/driver/nvidia/capabilities/gpu0/mig/gi1")).unwrap();
    node.scan_all(&mut nvidia, 61).await;
    assert_eq!(node.calls(), 3 * calls + 1);
    let version = node.path("proc/driver/nvidia/version");
    let text = fs::read_to_string(&version).unwrap().replace("550.90.07", "570.1.2");
    fs::write(&version, text).unwrap();
    let report = node.scan_all(&mut nvidia, 62).await;
    assert_eq!((report.drivers[0].version.as_str(), node.calls()), ("570.1.2", 4 * calls + 1));
}

#[tokio::test]
async fn a_bad_tool_leaves_what_files_tell() {
    for (name, value, reason) in [
        ("FAKE_FAIL", "all", "tool-failed"),
        ("FAKE_GARBAGE", "1", "malformed"),
        ("FAKE_HANG", "all", "tool-hangs"),
    ] {
        let mut node = Node::new(Quirks::default()).env(name, value);
        if reason == "tool-hangs" {
            let limit = Duration::from_millis(200);
            node.tools = Tools::new(node.host.clone(), limit, 4).env(name, value);
        }
        let mut nvidia = Nvidia::new();
        let mut report = node.scan_all(&mut nvidia, 0).await;
        assert_eq!(kinds(&report), [(reason, "nvidia-smi")], "{name}");
        report.findings.clear();
        assert_eq!(report, from_files(), "{name}");
    }
    let node = Node::new(Quirks::default());
    fs::remove_file(node.path("usr/bin/nvidia-smi")).unwrap();
    let report = node.scan_all(&mut Nvidia::new(), 0).await;
    assert_eq!(kinds(&report), [("tool-absent", "nvidia-smi")]);
}

#[tokio::test]
async fn a_tool_that_breaks_later_does_not_unsay_what_it_said() {
    let mut node = Node::new(Quirks::default());
    let mut nvidia = Nvidia::new().refresh(Duration::from_secs(60));
    node.scan_all(&mut nvidia, 0).await;
    let whole = node.tools.clone();
    node.tools = node.tools.env("FAKE_FAIL", "all");
    let mut report = node.scan_all(&mut nvidia, 100).await;
    assert_eq!(kinds(&report), [("tool-failed", "nvidia-smi")]);
    report.findings.clear();
    assert_eq!(report, complete());
    // It is asked at once when it may be well again.
    node.tools = whole;
    let before = node.calls();
    assert_eq!(node.scan_all(&mut nvidia, 101).await, complete());
    assert!(node.calls() > before);
}

fn replace_tool(root: &Path, script: &str) {
    let path = root.join("usr/bin/nvidia-smi");
    fs::remove_file(&path).unwrap();
    write_tool(&path, script);
}

fn write_tool(path: &Path, script: &str) {
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn a_gpu_that_falls_off_the_bus_is_seen_in_the_next_look_and_so_is_its_return() {
    // Some drivers say it in the row, some fail the question, some do not list it any more.
    for lost in [
        r#""$real" "$@" | sed 's/^3, [^,]*, \(.*0\), .*/3, [GPU is lost], \1, [GPU is lost], [GPU is lost]/'"#,
        r#"echo 'GPU is lost' >&2; exit 15"#,
        r#""$real" "$@" | grep -v ^3"#,
    ] {
        let node = Node::new(Quirks::default());
        // Every GPU but the lost one answers for itself.
        let script = format!(
            "[ -e lost ] || exec \"$real\" \"$@\"\ncase \"$*\" in\n\
             *'-i 0000:5d'*) echo 'GPU is lost' >&2; exit 15;;\n\
             *-i*) \"$real\" \"$1\" \"$2\" | grep -i \"${{4#0000:}}\";;\n\
             *query*) {lost};;\n*) exec \"$real\" \"$@\";;\nesac\n"
        );
        node.before_tool(&script);
        let mut nvidia = Nvidia::new();
        assert_eq!(node.scan_all(&mut nvidia, 0).await, complete(), "{lost}");
        fs::write(node.path("lost"), "").unwrap();
        let report = node.scan_all(&mut nvidia, 1).await;
        let mut expected = complete().devices;
        let Health::Faulty(reason) = health(&report, 3) else { panic!("{lost}: {report:?}") };
        assert!(reason.to_ascii_lowercase().contains("gpu is lost"), "{reason}");
        expected[3].health = report.devices[3].health.clone();
        assert_eq!(report.devices, expected, "{lost}");
        assert_eq!(nvidia.scan_files(&node.host).devices, expected, "{lost}");
        // Reset.
        fs::remove_file(node.path("lost")).unwrap();
        assert_eq!(node.scan_all(&mut nvidia, 2).await, complete(), "{lost}");
    }
}

#[tokio::test]
async fn a_question_that_fails_leaves_what_its_answer_was() {
    for (fails, subject) in
        [("-L", "nvidia-smi"), ("topo -m", "nvidia-smi"), ("*fabric*", "nvidia-smi")]
    {
        let mut node = Node::new(Quirks::default());
        node = node.env("FAKE_MIG", "1").env("FAKE_FABRIC", "gb200");
        let fails = match fails {
            "*fabric*" => fails.to_owned(),
            _ => format!("'{fails}'"),
        };
        node.before_tool(&format!(
            "case \"$*\" in {fails}) [ -e broken ] && exit 9;; esac\nexec \"$real\" \"$@\"\n"
        ));
        let mut nvidia = Nvidia::new().refresh(Duration::from_secs(60));
        let before = node.scan_all(&mut nvidia, 0).await;
        assert_eq!((before.findings.len(), before.devices[0].mig.len()), (0, 2));
        assert!(before.devices[0].fabric.is_some() && before.links.len() == 28);
        fs::write(node.path("broken"), "").unwrap();
        // Time has passed, then the slices have changed.
        let mut report = node.scan_all(&mut nvidia, 60).await;
        assert_eq!(kinds(&report), [("tool-failed", subject)], "{fails}");
        report.findings.clear();
        assert_eq!(report, before, "{fails}");
        fs::create_dir_all(node.path("proc/driver/nvidia/capabilities/gpu0/mig/gi1")).unwrap();
        let mut report = node.scan_all(&mut nvidia, 61).await;
        report.findings.clear();
        assert_eq!(report, before, "{fails}");
        fs::remove_file(node.path("broken")).unwrap();
        assert_eq!(node.scan_all(&mut nvidia, 62).await, before, "{fails}");
    }
}

#[tokio::test]
async fn what_the_driver_does_not_count_is_not_numbered() {
    let node = Node::new(Quirks::default());
    // One for virtual machines, one of another driver, one that is a part of the first.
    for (gpu, driver) in [(0, "vfio-pci"), (1, "nouveau")] {
        fs::remove_dir_all(node.information(gpu).parent().unwrap()).unwrap();
        node.bind(gpu, driver);
    }
    let part_of = node.path("sys/bus/pci/devices/0000:3a:00.0/physfn");
    symlink("/sys/bus/pci/devices/0000:18:00.0", part_of).unwrap();
    node.bind(3, "nvidia");
    let rows: Vec<String> =
        (3..8).map(|n| format!("echo '{}, GPU-{n}, {}:00.0, H'", n - 3, BUSES[n])).collect();
    replace_tool(
        node.folder.path(),
        &format!("#!/bin/sh\ncase \"$*\" in *query*) {} ;; esac\n", rows.join(";")),
    );
    let mut nvidia = Nvidia::new();
    for report in [nvidia.scan_files(&node.host), node.scan_all(&mut nvidia, 0).await] {
        let ids: Vec<_> = report.devices.iter().map(|one| (one.id, one.minor)).collect();
        let expected: Vec<_> = (0..5).map(|id| (id, Some(id + 3))).collect();
        assert_eq!(ids, expected);
        let findings: Vec<_> =
            kinds(&report).into_iter().filter(|(_, subject)| subject.starts_with("gpu")).collect();
        assert_eq!(findings, [("other-driver", "gpu 0000:2a:00.0")]);
    }
    let indexes = nvidia.scan_files(&node.host).devices;
    assert!(indexes.iter().all(|one| one.driver_index == Some(one.id)), "{indexes:?}");
    // One that was ours stays listed.
    fs::remove_dir_all(node.information(4).parent().unwrap()).unwrap();
    node.bind(4, "vfio-pci");
    let report = nvidia.scan_files(&node.host);
    assert_eq!(report.devices.len(), 5);
    assert_eq!(health(&report, 1), &faulty("vfio-pci has it, not the NVIDIA driver"));
}

#[tokio::test]
async fn the_tool_of_the_driver_container_is_the_last_that_is_tried() {
    let node = Node::new(Quirks::default());
    let own = node.path("usr/bin/nvidia-smi");
    for place in ["usr/local/nvidia/bin", "run/nvidia/driver/usr/bin"] {
        fs::create_dir_all(node.path(place)).unwrap();
        fs::rename(&own, node.path(place).join("nvidia-smi")).unwrap();
        assert_eq!(node.scan_all(&mut Nvidia::new(), 0).await, complete(), "{place}");
        // One that comes first in the order is the one that is asked.
        write_tool(&own, "#!/bin/sh\nexit 1\n");
        assert_eq!(node.scan_all(&mut Nvidia::new(), 0).await.links, [], "{place}");
        fs::rename(node.path(place).join("nvidia-smi"), &own).unwrap();
    }
    // The container's tool gets the container's library.
    let container = node.path("run/nvidia/driver/usr");
    fs::remove_file(&own).unwrap();
    fs::create_dir_all(container.join("lib64")).unwrap();
    let library = container.join("lib64/libnvidia-ml.so.1");
    write_tool(&library, "");
    let script = "#!/bin/sh\ncase \"$LD_PRELOAD\" in *lib64/libnvidia-ml.so.1) ;; *) exit 1;; esac\n\
        case \"$*\" in *query*) echo '0, GPU-y, 00000000:18:00.0, H100';; esac\n";
    write_tool(&container.join("bin/nvidia-smi"), script);
    let first = |report: SourceReport| report.devices[0].driver_index;
    assert_eq!(first(node.scan_all(&mut Nvidia::new(), 0).await), Some(0));
    // Not when others could have written it.
    fs::set_permissions(&library, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(first(node.scan_all(&mut Nvidia::new(), 0).await), None);
}

#[tokio::test]
async fn files_can_be_read_before_and_from_one_scan() {
    let node = Node::new(Quirks::default());
    let scan = pci::scan(&node.host, &[0x10de, 0x19e5]);
    let files = Nvidia::read_with(&node.host, &scan);
    assert_eq!(files, Nvidia::read(&node.host));
    assert_eq!(Nvidia::new().scan_files_with(files.clone()), from_files());
    // Nothing is left to read.
    fs::remove_dir_all(node.path("sys")).unwrap();
    fs::remove_dir_all(node.path("proc")).unwrap();
    let report =
        Nvidia::new().scan_all_with(files, &node.host, &node.tools, Timestamp::UNIX_EPOCH).await;
    assert_eq!(report, complete());
}

#[tokio::test]
async fn one_lost_gpu_is_found_and_does_not_hide_the_others() {
    let node = Node::new(Quirks::default());
    let script = "#!/bin/sh\ncase \"$*\" in\n*5d:00.0*) printf 'GPU is \\033[31mlost\\n' >&2; exit 15;;\n\
        *18:00.0*) echo '0, GPU-x, 00000000:18:00.0, Other';;\n*-i*) exit 0;;\n*) exit 15;;\nesac\n";
    replace_tool(node.folder.path(), script);
    let report = node.scan_all(&mut Nvidia::new(), 0).await;
    assert_eq!(health(&report, 3), &Health::Faulty("nvidia-smi: GPU is lost".into()));
    // One has answered, the other has said nothing.
    assert_eq!((health(&report, 0), health(&report, 4)), (&Health::Ok, &Health::Unknown));
    assert!(kinds(&report).contains(&("faulty", "gpu 0000:5d:00.0")), "{:?}", report.findings);
}

#[tokio::test]
async fn faults_that_files_show() {
    let node = Node::new(Quirks::default());
    node.edit(1, "GPU Excluded:\t No", "GPU Excluded:\t Yes");
    fs::remove_dir_all(node.information(2).parent().unwrap()).unwrap();
    fs::remove_dir_all(node.information(4).parent().unwrap()).unwrap();
    node.bind(4, "nvidia");
    fs::remove_file(node.path("dev/nvidia5")).unwrap();
    let report = Nvidia::new().scan_files(&node.host);
    assert_eq!(report.devices.len(), 8);
    for (id, reason) in [
        (1, "the driver excludes it"),
        (2, "the NVIDIA driver does not have it"),
        (4, "the NVIDIA driver does not have it"),
        (5, "device file is gone"),
    ] {
        assert_eq!(health(&report, id), &Health::Faulty(reason.into()));
    }
    assert_eq!(health(&report, 0), &Health::Unknown);
    let subjects = ["2a", "3a", "9a", "ab"].map(|bus| format!("gpu 0000:{bus}:00.0"));
    assert_eq!(kinds(&report), subjects.each_ref().map(|subject| ("faulty", subject.as_str())));
}

#[tokio::test]
async fn a_gpu_that_goes_stays_listed() {
    let node = Node::new(Quirks::default());
    let mut nvidia = Nvidia::new();
    let before = node.scan_all(&mut nvidia, 0).await;
    fs::remove_dir_all(node.information(3).parent().unwrap()).unwrap();
    fs::remove_file(node.path("sys/bus/pci/devices/0000:5d:00.0")).unwrap();
    fs::remove_file(node.path("dev/nvidia0")).unwrap();
    for report in [
        nvidia.scan_files(&node.host),
        node.scan_all(&mut nvidia, 1).await,
        nvidia.scan_files(&node.host),
    ] {
        let mut expected = before.devices.clone();
        expected[0].health = faulty("device file is gone");
        expected[3].health = faulty("it is gone from the PCI bus");
        assert_eq!(report.devices, expected);
    }
    // Back again.
    Profile::NvidiaH1008.lay_out(node.folder.path(), 0).unwrap();
    assert_eq!(node.scan_all(&mut nvidia, 2).await, complete());
}

#[test]
fn files_that_no_one_has_asked_for_yet_are_no_fault() {
    let node = Node::new(Quirks::default());
    fs::remove_dir_all(node.path("dev")).unwrap();
    let report = Nvidia::new().scan_files(&node.host);
    assert!(report.devices.iter().all(|device| device.health == Health::Unknown));
    assert_eq!(kinds(&report), []);
}

#[tokio::test]
async fn device_files_that_the_tool_s_call_makes_are_seen_at_once() {
    let node = Node::new(Quirks::default());
    fs::rename(node.path("dev"), node.path("later")).unwrap();
    let (from, to) = (node.path("later"), node.path("dev"));
    let script = format!(
        "#!/bin/sh\n[ -e {to} ] || mv {from} {to}\ncase \"$*\" in\n\
         *query*) echo '0, GPU-y, 00000000:18:00.0, H100';;\nesac\n",
        from = from.display(),
        to = to.display()
    );
    replace_tool(node.folder.path(), &script);
    let report = node.scan_all(&mut Nvidia::new(), 0).await;
    assert_eq!(health(&report, 0), &Health::Ok);
    assert!(report.devices.iter().all(|device| device.health.usable()), "{report:?}");
}

#[test]
fn gpus_without_a_driver_are_faulty_and_a_node_without_gpus_is_quiet() {
    let node = Node::new(Quirks::default());
    fs::remove_dir_all(node.path("proc")).unwrap();
    let report = Nvidia::new().scan_files(&node.host);
    assert_eq!((report.devices.len(), report.drivers.len()), (8, 0));
    assert!(report.devices.iter().all(|device| !device.health.usable()));
    assert!(kinds(&report).contains(&("no-driver", "nvidia driver")));
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(Nvidia::new().scan_files(&Host::at(folder.path())), SourceReport::default());
}

#[tokio::test]
async fn an_index_that_differs_is_said() {
    let node = Node::new(Quirks::default());
    let script =
        "#!/bin/sh\ncase \"$*\" in *query*) echo '0, GPU-y, 00000000:2A:00.0, H100';; esac\n";
    replace_tool(node.folder.path(), script);
    let report = node.scan_all(&mut Nvidia::new(), 0).await;
    assert_eq!(kinds(&report)[0], ("index-differs", "gpu 0000:2a:00.0"));
}

#[test]
fn huge_and_hostile_files_are_findings() {
    let node = Node::new(Quirks::default());
    fs::write(node.information(0), "x".repeat(crate::host::SMALL + 1)).unwrap();
    node.edit(1, "NVIDIA H100", "\u{1b}[31mNVIDIA\u{7} H100");
    let report = Nvidia::new().scan_files(&node.host);
    assert_eq!(kinds(&report)[0], ("too-large", "gpu 0000:18:00.0"));
    assert_eq!(report.devices[1].model, "NVIDIA H100 80GB HBM3");
    assert_eq!(report.devices.len(), 8);
}
