//! Eight H100 joined by NVLink, each with a network card under its own PCIe switch.

use std::fmt::Write;
use std::io;

use super::tools::script;
use super::tree::{Function, Tree};
use super::{Device, Quirks};

/// Buses of the GPUs; the card's is two further.
const BUSES: [u32; 8] = [0x18, 0x2a, 0x3a, 0x5d, 0x9a, 0xab, 0xba, 0xdb];
const MODEL: &str = "NVIDIA H100 80GB HBM3";
const DRIVER: &str = "550.90.07";
/// What `-L` lists below a GPU that is cut; lines but the last end with a backslash, for sed.
const SLICES: &str = "\\  MIG 3g.40gb     Device  0: (UUID: MIG-aaaaaaaa-0000-1111-2222-333333333333)\\\n\
                      \\  MIG 1g.10gb     Device  1: (UUID: MIG-bbbbbbbb-0000-1111-2222-333333333333)";
/// The card whose port is down.
const DOWN: usize = 5;
const CORES: [&str; 2] = ["0-55,112-167", "56-111,168-223"];

fn numa(gpu: usize) -> usize {
    usize::from(gpu >= 4)
}

fn uuid(index: u32, gpu: usize) -> String {
    format!("GPU-11111111-2222-3333-4444-{index:08x}{gpu:04x}")
}

pub(super) fn devices(index: u32) -> Vec<Device> {
    (0..BUSES.len())
        .map(|gpu| Device {
            id: uuid(index, gpu),
            numa: Some(numa(gpu) as i64),
            path: format!("/dev/nvidia{gpu}"),
            visible_env: "NVIDIA_VISIBLE_DEVICES",
            visible_as: uuid(index, gpu),
        })
        .collect()
}

pub(super) fn labels() -> Vec<(&'static str, String)> {
    [
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),
        ("nvidia.com/gpu.count", "8"),
        ("nvidia.com/gpu.memory", "81559"),
        ("nvidia.com/gpu.family", "hopper"),
        ("nvidia.com/gpu.compute.major", "9"),
        ("nvidia.com/gpu.compute.minor", "0"),
        ("nvidia.com/cuda.driver.major", "550"),
        ("nvidia.com/cuda.driver.minor", "90"),
        ("nvidia.com/cuda.driver.rev", "07"),
    ]
    .map(|(key, value)| (key, value.to_owned()))
    .to_vec()
}

pub(super) fn lay_out(tree: &Tree, index: u32, quirks: Quirks) -> io::Result<()> {
    let version = format!(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {DRIVER}  Fri May 31 09:35:42 UTC 2024\n\
         GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n"
    );
    tree.file("proc/driver/nvidia/version", &version)?;
    for name in ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "infiniband/rdma_cm"] {
        tree.device(&format!("dev/{name}"))?;
    }
    for (gpu, bus) in BUSES.into_iter().enumerate() {
        tree.device(&format!("dev/nvidia{gpu}"))?;
        tree.device(&format!("dev/infiniband/uverbs{gpu}"))?;
        lay_out_gpu(tree, index, gpu, bus, quirks)?;
        lay_out_card(tree, index, gpu, bus)?;
    }
    for switch in 5..9 {
        tree.pci(&Function {
            path: &format!("pci0000:00/0000:00:01.0/0000:{switch:02x}:00.0"),
            vendor: "0x10de",
            device: "0x22a3",
            class: "0x068000",
            revision: "0xa1",
            numa: 0,
            cpus: CORES[0],
        })?;
    }
    tree.tool("usr/bin/nvidia-smi", &smi(index))
}

/// The switch above a GPU and its card.
fn switch(bus: u32) -> String {
    let (root, upstream) = (bus - 3, bus - 2);
    format!("pci0000:{root:02x}/0000:{root:02x}:01.0/0000:{upstream:02x}:00.0")
}

fn lay_out_gpu(tree: &Tree, index: u32, gpu: usize, bus: u32, quirks: Quirks) -> io::Result<()> {
    tree.pci(&Function {
        path: &format!("{}/0000:{:02x}:00.0/0000:{bus:02x}:00.0", switch(bus), bus - 1),
        vendor: "0x10de",
        device: "0x2330",
        class: "0x030200",
        revision: "0xa1",
        numa: if quirks.unknown_numa && gpu == 7 { -1 } else { numa(gpu) as i64 },
        cpus: CORES[numa(gpu)],
    })?;
    let minor = match (quirks.swapped_minors, gpu) {
        (true, 0) => 3,
        (true, 3) => 0,
        _ => gpu,
    };
    let uuid = match quirks.unknown_uuid && gpu == 2 {
        true => "GPU-????????-????-????-????-????????????".to_owned(),
        false => uuid(index, gpu),
    };
    let information = format!(
        "Model: \t\t {MODEL}\nIRQ:   \t\t {}\nGPU UUID: \t {uuid}\nVideo BIOS: \t 96.00.74.00.01\n\
         Bus Type: \t PCIe\nDMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\n\
         Bus Location: \t 0000:{bus:02x}:00.0\nDevice Minor: \t {minor}\nGPU Firmware: \t {DRIVER}\n\
         GPU Excluded:\t No\n",
        204 + gpu
    );
    tree.file(&format!("proc/driver/nvidia/gpus/0000:{bus:02x}:00.0/information"), &information)
}

fn lay_out_card(tree: &Tree, index: u32, card: usize, gpu_bus: u32) -> io::Result<()> {
    let bus = gpu_bus + 2;
    let path = format!("{}/0000:{:02x}:00.0/0000:{bus:02x}:00.0", switch(gpu_bus), gpu_bus + 1);
    tree.pci(&Function {
        path: &path,
        vendor: "0x15b3",
        device: "0x1021",
        class: "0x020000",
        revision: "0x00",
        numa: numa(card) as i64,
        cpus: CORES[numa(card)],
    })?;
    let name = format!("mlx5_{card}");
    let own = format!("{path}/infiniband/{name}");
    tree.link(&format!("sys/class/infiniband/{name}"), &format!("../../devices/{own}"))?;
    tree.link(&format!("sys/devices/{own}/device"), &format!("../../../0000:{bus:02x}:00.0"))?;
    let (low, high) = (index % 256, index / 256);
    let guid = format!("0c42:a103:00{low:02x}:{high:02x}{:02x}", card + 1);
    for (file, value) in [
        ("node_type", "1: CA"),
        ("node_guid", guid.as_str()),
        ("fw_ver", "28.39.2048"),
        ("hca_type", "MT4129"),
    ] {
        tree.line(&format!("sys/devices/{own}/{file}"), value)?;
    }
    let port = format!("sys/devices/{own}/ports/1");
    let (state, physical) = match card == DOWN {
        true => ("1: DOWN", "3: Disabled"),
        false => ("4: ACTIVE", "5: LinkUp"),
    };
    for (file, value) in [
        ("state", state),
        ("phys_state", physical),
        ("rate", "400 Gb/sec (4X NDR)"),
        ("link_layer", "Ethernet"),
        ("lid", "0x0"),
    ] {
        tree.line(&format!("{port}/{file}"), value)?;
    }
    let link_local =
        format!("fe80:0000:0000:0000:0e42:a1ff:fe{low:02x}:{high:02x}{:02x}", card + 1);
    let [second, third, fourth] = address(index, card);
    let mapped = format!("0000:0000:0000:0000:0000:ffff:0a{second:02x}:{third:02x}{fourth:02x}");
    for (slot, gid) in [&link_local, &link_local, &mapped, &mapped].into_iter().enumerate() {
        tree.line(&format!("{port}/gids/{slot}"), gid)?;
        let kind = if slot % 2 == 0 { "IB/RoCE v1" } else { "RoCE v2" };
        tree.line(&format!("{port}/gid_attrs/types/{slot}"), kind)?;
        tree.line(&format!("{port}/gid_attrs/ndevs/{slot}"), &format!("eth_rdma{card}"))?;
    }
    Ok(())
}

/// The last three bytes of a card's address: 10.40.<card>.1 on the first node.
fn address(index: u32, card: usize) -> [u32; 3] {
    [40 + index / 254, card as u32, 1 + index % 254]
}

fn smi(index: u32) -> String {
    let mut uuids = String::new();
    let mut buses = String::new();
    let mut listing = String::new();
    for (gpu, bus) in BUSES.into_iter().enumerate() {
        let id = uuid(index, gpu);
        // Writing into a String cannot fail.
        let _written = write!(uuids, "{gpu}) echo {id} ;; ");
        let _written = write!(buses, "{gpu}) echo 00000000:{bus:02X}:00.0 ;; ");
        let _written = writeln!(listing, "GPU {gpu}: {MODEL} (UUID: {id})");
    }
    let topology = topology();
    // FAKE_FABRIC=gb200 joins the GPUs to a clique, FAKE_FABRIC=old knows no such fields; FAKE_MIG=1 cuts GPU 0 into
    // slices; FAKE_TTY=1 prints heads as on a terminal.
    let body = format!(
        r#"uuid_of() {{ case "$1" in {uuids}esac; }}
bus_of() {{ case "$1" in {buses}esac; }}
value() {{
  case "${{FAKE_FABRIC:-}}:$2" in
    old:fabric.*) echo "Field \"$2\" is not a valid field to query." >&2; return 1 ;;
  esac
  case "$2" in
    index) echo "$1" ;;
    uuid|gpu_uuid) uuid_of "$1" ;;
    pci.bus_id|gpu_bus_id) bus_of "$1" ;;
    name|gpu_name) echo '{MODEL}' ;;
    driver_version) echo {DRIVER} ;;
    memory.total) echo '81559 MiB' ;;
    memory.used) echo '4 MiB' ;;
    temperature.gpu) echo 34 ;;
    fabric.clusterUuid|fabric.cluster_uuid)
      if [ "${{FAKE_FABRIC:-}}" = gb200 ]; then echo a1b2c3d4-0000-1111-2222-333344445555; else echo N/A; fi ;;
    fabric.cliqueId|fabric.clique_id)
      if [ "${{FAKE_FABRIC:-}}" = gb200 ]; then echo 32766; else echo N/A; fi ;;
    *) echo "Field \"$2\" is not a valid field to query." >&2; return 1 ;;
  esac
}}
case "$*" in
-L)
if [ "${{FAKE_MIG:-}}" = 1 ]; then slices='1a\
{SLICES}'; else slices=; fi
sed "$slices" <<'END'
{listing}END
;;
"topo -m")
if [ "${{FAKE_TTY:-}}" = 1 ]; then under=$(printf '\033[4m'); plain=$(printf '\033[0m'); else under= plain=; fi
sed "1s/.*/$under&$plain/" <<'END'
{topology}END
;;
"--query-gpu="*" --format=csv,noheader"|"--query-gpu="*" --format=csv,noheader,nounits")
fields=${{1#--query-gpu=}}
for gpu in 0 1 2 3 4 5 6 7; do
  if [ -n "$id" ] && [ "$id" != "$gpu" ]; then continue; fi
  row=
  rest=$fields,
  while [ -n "$rest" ]; do
    field=${{rest%%,*}} rest=${{rest#*,}}
    cell=$(value "$gpu" "$field") || exit 2
    row="${{row:+$row, }}$cell"
  done
  echo "$row"
done
;;
*)
echo "nvidia-smi: this call is not supported" >&2; exit 1
;;
esac
"#
    );
    script("nvidia-smi", &body)
}

fn topology() -> String {
    let count = BUSES.len();
    let names: Vec<String> = (0..count)
        .map(|n| format!("GPU{n}"))
        .chain((0..count).map(|n| format!("NIC{n}")))
        .collect();
    let mut text = format!("\t{}\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n", names.join("\t"));
    for row in 0..2 * count {
        let joined = |column: usize| match (row / count, column / count) {
            _ if row == column => " X ",
            (0, 0) => "NV18",
            _ if row % count == column % count => "PIX",
            _ if numa(row % count) == numa(column % count) => "NODE",
            _ => "SYS",
        };
        let cells: Vec<&str> = (0..2 * count).map(joined).collect();
        // Writing into a String cannot fail.
        let _written = write!(text, "{}\t{}\t", names[row], cells.join("\t"));
        if row < count {
            let _written = write!(text, "{}\t{}\t\tN/A", CORES[numa(row)], numa(row));
        }
        text.push('\n');
    }
    text.push_str(
        "\nLegend:\n\n  X    = Self\n  SYS  = across sockets\n  NODE = within a socket\n  \
         PIX  = one PCIe switch\n  NV#  = a bonded set of # NVLinks\n\nNIC Legend:\n\n",
    );
    for card in 0..count {
        let _written = writeln!(text, "  NIC{card}: mlx5_{card}");
    }
    text
}
