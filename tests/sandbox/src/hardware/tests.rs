use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use super::*;

fn node(profile: Profile, index: u32) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    profile.lay_out(root.path(), index).unwrap();
    root
}

fn read(root: &TempDir, path: &str) -> String {
    fs::read_to_string(root.path().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn run(root: &TempDir, tool: &str, args: &str, env: &[(&str, &str)]) -> Output {
    let path = match tool {
        "hccn_tool" => "usr/local/Ascend/driver/tools/hccn_tool",
        "npu-smi" => "usr/local/sbin/npu-smi",
        _ => "usr/bin/nvidia-smi",
    };
    Command::new(root.path().join(path))
        .args(args.split_whitespace())
        .envs(env.iter().copied())
        .output()
        .unwrap()
}

fn says(root: &TempDir, tool: &str, args: &str, env: &[(&str, &str)]) -> String {
    let output = run(root, tool, args, env);
    assert!(output.status.success(), "{tool} {args}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn profiles_are_found_by_name_and_announce_their_devices() {
    for (name, resource, count, first) in [
        ("ascend-910a-8", Some("huawei.com/Ascend910"), 8, "Ascend910-0"),
        ("ascend-910b-8", Some("huawei.com/Ascend910"), 8, "Ascend910-0"),
        ("ascend-a3-16", Some("huawei.com/Ascend910"), 16, "Ascend910-0"),
        ("ascend-310p", Some("huawei.com/Ascend310P"), 8, "Ascend310P-0"),
        ("nvidia-h100-8", Some("nvidia.com/gpu"), 8, "GPU-11111111-2222-3333-4444-000000000000"),
        ("cpu", None, 0, ""),
    ] {
        let profile: Profile = name.parse().unwrap();
        assert_eq!(profile.resource(), resource);
        let devices = profile.devices(0);
        assert_eq!(devices.len(), count, "{name}");
        assert_eq!(devices.first().map_or("", |d| d.id.as_str()), first);
    }
    assert!("tpu".parse::<Profile>().is_err());
}

#[test]
fn a_910b_node_has_its_files() {
    let root = node(Profile::Ascend910b8, 0);
    for file in ["davinci0", "davinci7", "davinci_manager", "devmm_svm", "hisi_hdc", "dvpp_cmdlist"]
    {
        assert!(root.path().join("dev").join(file).is_file(), "{file}");
    }
    let conf = read(&root, "etc/hccn.conf");
    assert!(
        conf.starts_with("address_0=10.20.0.2\nnetmask_0=255.255.255.0\ngateway_0=10.20.0.1\n")
    );
    assert!(conf.contains("netmask_1=255.255.255.0\naddress_1=10.20.0.3\n"));
    assert!(conf.ends_with("address_7=10.20.0.9\nnetmask_7=255.255.255.0\n"));
    let pci = root.path().join("sys/bus/pci/devices");
    assert_eq!(
        fs::read_link(pci.join("0000:c1:00.0")).unwrap(),
        Path::new("../../../devices/pci0000:c0/0000:c0:00.0/0000:c1:00.0")
    );
    assert_eq!(fs::read_dir(&pci).unwrap().count(), 10, "eight chips and two decoys");
    for (bdf, numa, cpus) in
        [("c1", "6", "144-167"), ("82", "4", "96-119"), ("01", "0", "0-23"), ("42", "2", "48-71")]
    {
        let at = format!("sys/bus/pci/devices/0000:{bdf}:00.0");
        assert_eq!(read(&root, &format!("{at}/numa_node")), format!("{numa}\n"));
        assert_eq!(read(&root, &format!("{at}/local_cpulist")), format!("{cpus}\n"));
        assert_eq!(read(&root, &format!("{at}/device")), "0xd802\n");
    }
    assert!(read(&root, "usr/local/Ascend/driver/version.info").starts_with("Version=25.2.0\n"));
}

#[test]
fn a_910b_nodes_tools_print_what_the_real_ones_do() {
    let root = node(Profile::Ascend910b8, 0);
    let info = says(&root, "npu-smi", "info", &[]);
    let lines: Vec<&str> = info.lines().collect();
    assert_eq!(
        lines[1],
        "| npu-smi 25.2.0                   Version: 25.2.0                                               |"
    );
    assert_eq!(
        lines[3],
        "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|"
    );
    assert_eq!(
        lines[4],
        "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |"
    );
    assert_eq!(
        lines[6],
        "| 0     910B3               | OK            | 92.1        40                0    / 0             |"
    );
    assert_eq!(
        lines[7],
        "| 0                         | 0000:C1:00.0  | 0           0    / 0          3371 / 65536         |"
    );
    let width = |text: &str| text.lines().map(|l| l.chars().count()).collect::<Vec<_>>();
    assert!(width(&info).iter().all(|w| *w == 98), "{info}");
    let wide = says(&root, "npu-smi", "info", &[("FAKE_LAYOUT", "26")]);
    assert!(width(&wide).iter().all(|w| *w == 114), "{wide}");

    let listing = says(&root, "npu-smi", "info -l", &[]);
    assert!(listing.starts_with("\tTotal Count                    : 8\n\n\tNPU ID                         : 0\n\tChip Count                     : 1\n"), "{listing}");
    let mapping = says(&root, "npu-smi", "info -m", &[]);
    assert_eq!(mapping.lines().count(), 17);
    assert!(mapping.lines().nth(1).unwrap().ends_with("Ascend 910B3"));
    let topo = says(&root, "npu-smi", "info -t topo", &[]);
    assert!(topo.lines().nth(1).unwrap().starts_with("NPU0       X          HCCS       "));
    assert!(topo.lines().nth(3).unwrap().ends_with("96-119"));

    for (args, text) in [
        ("-i 0 -ip -g", "ipaddr:10.20.0.2\nnetmask:255.255.255.0\n"),
        ("-i 0 -link -g", "link status: UP\n"),
        ("-i 3 -link -g", "link status: DOWN\n"),
        ("-i 0 -net_health -g", "net health status: Success\n"),
        ("-i 3 -net_health -g", "net health status: Init\n"),
        ("-i 0 -speed -g", "Speed: 200000 Mb/s\n"),
        ("-i 0 -gateway -g", "default gateway:10.20.0.1, Iface:eth0\n"),
        ("-i 0 -mac -g", "mac addr: 02:00:0a:14:00:02\n"),
    ] {
        assert_eq!(says(&root, "hccn_tool", args, &[]), text, "{args}");
    }
    let lldp = says(&root, "hccn_tool", "-i 0 -lldp -g", &[]);
    assert!(lldp.starts_with("Chassis ID TLV\n        MAC: 02:aa:bb:cc:00:01\nPort ID TLV\n        Ifname: 400GE1/1/20:1\n"), "{lldp}");
    assert_eq!(run(&root, "hccn_tool", "-i 9 -ip -g", &[]).status.code(), Some(1));
    assert_eq!(says(&root, "hccn_tool", "-i 5 -ip -g", &[("FAKE_NOIP", "5")]), "");
}

#[test]
fn the_tools_obey_their_switches() {
    let root = node(Profile::Ascend910b8, 0);
    let log = root.path().join("log");
    let env = [("FAKE_LOG", log.to_str().unwrap()), ("FAKE_FAIL", "2")];
    assert_eq!(run(&root, "hccn_tool", "-i 2 -ip -g", &env).status.code(), Some(1));
    assert_eq!(run(&root, "hccn_tool", "-i 1 -ip -g", &env).status.code(), Some(0));
    assert_eq!(read(&root, "log"), "hccn_tool -i 2 -ip -g\nhccn_tool -i 1 -ip -g\n");
    let noise = run(&root, "npu-smi", "info", &[("FAKE_GARBAGE", "1")]);
    assert!(noise.status.success() && String::from_utf8(noise.stdout).is_err());
    let before = std::time::Instant::now();
    says(&root, "npu-smi", "info", &[("FAKE_DELAY_MS", "120")]);
    assert!(before.elapsed().as_millis() >= 120);
}

#[test]
fn an_a3_node_is_a_server_of_its_supernode() {
    let root = node(Profile::AscendA316, 0);
    let info = says(&root, "npu-smi", "info", &[]);
    let lines: Vec<&str> = info.lines().collect();
    for (line, text) in [
        (
            4,
            "| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |",
        ),
        (
            7,
            "| 0     0                   | 0000:9D:00.0  | 0           0    / 0          3150 / 65536         |",
        ),
        (
            9,
            "| 0     Ascend910           | OK            | -           34                0    / 0             |",
        ),
        (
            10,
            "| 1     1                   | 0000:9F:00.0  | 0           0    / 0          2890 / 65536         |",
        ),
    ] {
        assert_eq!(lines[line], text);
    }
    assert!(lines[8].starts_with("+-----") && !lines[8].trim_matches('+').contains('+'));
    for (npu, die, sdid) in [
        (0, 0, 167772160),
        (0, 1, 167837697),
        (5, 0, 169082890),
        (5, 1, 169148427),
        (6, 0, 169345036),
        (7, 1, 169672719),
    ] {
        let spod = says(&root, "npu-smi", &format!("info -t spod-info -i {npu} -c {die}"), &[]);
        assert_eq!(
            spod,
            format!(
                "\tSDID                           : {sdid}\n\tSuper Pod Size                 : 384\n\tSuper Pod ID                   : 0\n\tServer Index                   : 40\n"
            )
        );
    }
    let alone = says(&root, "npu-smi", "info -t spod-info -i 0 -c 0", &[("FAKE_SPOD", "none")]);
    assert!(alone.contains("Super Pod ID                   : 4294967295\n"));
    assert!(says(&root, "npu-smi", "info -l", &[]).contains("Chip Count                     : 2"));
    for (args, text) in [
        ("-i 11 -ip -g", "ipaddr:10.0.244.16\nnetmask:255.255.255.0\n"),
        ("-i 11 -vnic -g", "ipaddr:192.168.40.12\nnetmask:255.255.0.0\n"),
        ("-i 15 -ip -g", "ipaddr:10.0.244.18\nnetmask:255.255.255.0\n"),
        ("-i 14 -ip -g", "ipaddr:10.0.245.18\nnetmask:255.255.255.0\n"),
    ] {
        assert_eq!(says(&root, "hccn_tool", args, &[]), text, "{args}");
    }
    let topo = says(&root, "npu-smi", "info -t topo", &[]);
    assert!(
        topo.lines().nth(1).unwrap().starts_with("NPU0       X          SIO        HCCS_SW    ")
    );
    let old = says(&root, "npu-smi", "info -t topo", &[("FAKE_TOPO", "old")]);
    assert!(!old.lines().nth(1).unwrap().contains("HCCS_SW"));
    assert_eq!(read(&root, "sys/bus/pci/devices/0000:99:00.0/device"), "0xd803\n");
    assert_eq!(fs::read_dir(root.path().join("sys/bus/pci/devices")).unwrap().count(), 16);
}

#[test]
fn a_910a_node_is_two_rings_on_four_networks() {
    let root = node(Profile::Ascend910a8, 0);
    let topo = says(&root, "npu-smi", "info -t topo", &[]);
    let row = |n: usize| topo.lines().nth(n).unwrap().split_whitespace().collect::<Vec<_>>();
    let (ring, far) = (["HCCS"; 3], ["SYS"; 4]);
    assert_eq!(row(1), [&["NPU0", "X"], &ring[..], &far, &["144-167"]].concat());
    assert_eq!(row(8), [&["NPU7"], &far[..], &ring, &["X", "0-23"]].concat());
    for (id, address) in [(0, "10.30.0.2"), (3, "10.30.3.2"), (4, "10.30.0.3"), (7, "10.30.3.3")] {
        let says = says(&root, "hccn_tool", &format!("-i {id} -ip -g"), &[]);
        assert_eq!(says, format!("ipaddr:{address}\nnetmask:255.255.255.0\n"));
        assert!(read(&root, "etc/hccn.conf").contains(&format!("address_{id}={address}\n")));
    }
    assert_eq!(read(&root, "sys/bus/pci/devices/0000:c1:00.0/device"), "0xd801\n");
    assert!(says(&root, "npu-smi", "info", &[]).contains("| 0     910A "));
}

#[test]
fn a_310p_node_has_chips_without_ports() {
    let root = node(Profile::Ascend310p, 0);
    let info = says(&root, "npu-smi", "info", &[]);
    let lines: Vec<&str> = info.lines().collect();
    assert_eq!(
        lines[4],
        "| Chip    Device            | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |"
    );
    assert_eq!(
        lines[7],
        "| 0       0                 | 0000:01:00.0    | 0            1433 / 44280                            |"
    );
    assert_eq!(
        lines[10],
        "| 1       1                 | 0000:01:00.0    | 0            1271 / 43693                            |"
    );
    let listing = says(&root, "npu-smi", "info -l", &[]);
    let npus: Vec<&str> = listing
        .lines()
        .filter(|l| l.contains("NPU ID"))
        .map(|l| l.rsplit(' ').next().unwrap())
        .collect();
    assert_eq!(npus, ["1", "2", "4", "5"]);
    assert!(!root.path().join("etc/hccn.conf").exists());
    assert!(root.path().join("dev/vdavinci100").exists());
    assert_eq!(run(&root, "hccn_tool", "-i 0 -ip -g", &[]).status.code(), Some(1));
    let numa: Vec<Option<i64>> = Profile::Ascend310p.devices(0).iter().map(|d| d.numa).collect();
    assert_eq!(numa, [Some(0), Some(0), Some(0), Some(0), None, None, None, None]);
    assert_eq!(read(&root, "sys/bus/pci/devices/0000:81:00.0/numa_node"), "-1\n");
}

#[test]
fn an_h100_node_has_gpus_and_cards_under_one_switch() {
    let root = node(Profile::NvidiaH1008, 0);
    let devices = root.path().join("sys/bus/pci/devices");
    assert_eq!(
        fs::read_link(devices.join("0000:18:00.0")).unwrap(),
        Path::new(
            "../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0"
        )
    );
    assert_eq!(
        fs::read_link(devices.join("0000:1a:00.0")).unwrap(),
        Path::new(
            "../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:19:00.0/0000:1a:00.0"
        )
    );
    let information = read(&root, "proc/driver/nvidia/gpus/0000:18:00.0/information");
    assert!(information.starts_with("Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 204\nGPU UUID: \t GPU-11111111-2222-3333-4444-000000000000\n"));
    let port = "sys/class/infiniband/mlx5_0/ports/1";
    assert_eq!(read(&root, &format!("{port}/gids/3")), "0000:0000:0000:0000:0000:ffff:0a28:0001\n");
    assert_eq!(read(&root, &format!("{port}/gids/0")), "fe80:0000:0000:0000:0e42:a1ff:fe00:0001\n");
    assert_eq!(read(&root, &format!("{port}/gid_attrs/types/3")), "RoCE v2\n");
    assert_eq!(read(&root, "sys/class/infiniband/mlx5_0/device/vendor"), "0x15b3\n");
    assert_eq!(read(&root, "sys/class/infiniband/mlx5_5/ports/1/state"), "1: DOWN\n");
    let listing = says(&root, "nvidia-smi", "-L", &[]);
    assert!(listing.starts_with(
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11111111-2222-3333-4444-000000000000)\nGPU 1: "
    ));
    let rows =
        says(&root, "nvidia-smi", "--query-gpu=index,uuid,pci.bus_id --format=csv,noheader", &[]);
    assert_eq!(
        rows.lines().next(),
        Some("0, GPU-11111111-2222-3333-4444-000000000000, 00000000:18:00.0")
    );
    let fabric = "--query-gpu=fabric.clusterUuid,fabric.cliqueId --format=csv,noheader";
    assert_eq!(says(&root, "nvidia-smi", fabric, &[]).lines().next(), Some("N/A, N/A"));
    let joined = says(&root, "nvidia-smi", fabric, &[("FAKE_FABRIC", "gb200")]);
    assert_eq!(joined.lines().nth(7), Some("a1b2c3d4-0000-1111-2222-333344445555, 32766"));
    let topo = says(&root, "nvidia-smi", "topo -m", &[]);
    let row: Vec<&str> = topo.lines().nth(1).unwrap().split('\t').collect();
    assert_eq!(&row[..3], ["GPU0", " X ", "NV18"]);
    assert_eq!((row[9], row[10], row[13]), ("PIX", "NODE", "SYS"));
    assert!(topo.contains("NIC0: mlx5_0"));
    assert!(says(&root, "nvidia-smi", "topo -m", &[("FAKE_TTY", "1")]).starts_with("\x1b[4m\t"));
}

#[test]
fn two_nodes_of_one_profile_differ() {
    for (profile, tool, args) in [
        (Profile::Ascend910a8, "hccn_tool", "-i 0 -ip -g"),
        (Profile::Ascend910b8, "hccn_tool", "-i 0 -ip -g"),
        (Profile::AscendA316, "hccn_tool", "-i 0 -ip -g"),
        (Profile::AscendA316, "npu-smi", "info -t spod-info -i 0 -c 0"),
        (Profile::NvidiaH1008, "nvidia-smi", "-L"),
    ] {
        let all = [0, 1, 9, 300].map(|index| says(&node(profile, index), tool, args, &[]));
        for (n, one) in all.iter().enumerate() {
            assert!(!all[..n].contains(one), "{profile}: {one}");
        }
    }
}

#[test]
fn quirks_show_in_the_files() {
    let root = tempfile::tempdir().unwrap();
    let quirks = Quirks {
        swapped_minors: true,
        unknown_uuid: true,
        unknown_numa: true,
        truncated_hccn: true,
    };
    Profile::NvidiaH1008.lay_out_with(root.path(), 0, quirks).unwrap();
    let information =
        |bus: &str| read(&root, &format!("proc/driver/nvidia/gpus/0000:{bus}:00.0/information"));
    assert!(information("18").contains("Device Minor: \t 3\n"));
    assert!(information("5d").contains("Device Minor: \t 0\n"));
    assert!(information("3a").contains("GPU-????????"));
    assert_eq!(read(&root, "sys/bus/pci/devices/0000:db:00.0/numa_node"), "-1\n");
    let root = tempfile::tempdir().unwrap();
    Profile::Ascend910b8.lay_out_with(root.path(), 0, quirks).unwrap();
    assert!(read(&root, "etc/hccn.conf").ends_with("\naddress_7=10.20.0.9"));
}
