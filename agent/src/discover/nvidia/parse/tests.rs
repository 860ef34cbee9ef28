use proptest::prelude::*;

use super::*;

const INFORMATION: &str = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 204\n\
    GPU UUID: \t GPU-11111111-2222-3333-4444-000000000000\nBus Location: \t 0000:18:00.0\n\
    Device Minor: \t 3\nGPU Excluded:\t No\n";
const LISTING: &str = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n  \
    MIG 1g.10gb     Device  0: (UUID: MIG-aa)\n  MIG 1g.10gb+me Device 1: (UUID: MIG-bb)\n\
    GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2)\n";
const TOPOLOGY: &str = "\u{1b}[4m\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\u{1b}[0m\n\
    GPU0\t X \tNV18\tPIX\t0-55\t0\nGPU1\tNV18\t X \tNODE\t0-55\t0\nNIC0\tPIX\tNODE\t X \t\t\n\
    \nLegend:\n\n  NV#  = a bonded set\n";
const ROWS: &str = "0, GPU-1, 00000000:18:00.0, NVIDIA H100, a1b2c3d4-0000-1111-2222-333344445555, 7\n\
    1, GPU-2, 00000000:2A:00.0, NVIDIA H100, N/A, N/A\n";

#[test]
fn versions_of_both_kinds_of_driver() {
    for (text, expected) in [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31\nGCC",
            Some("550.90.07"),
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.124.06  Release Build  (x)",
            Some("570.124.06"),
        ),
        ("NVRM version: none", None),
        ("GCC version: 11.4.0", None),
        ("", None),
    ] {
        assert_eq!(version(text).as_deref(), expected, "{text}");
    }
}

#[test]
fn information_of_a_gpu() {
    let expected = Information {
        model: "NVIDIA H100 80GB HBM3".into(),
        uuid: Some("GPU-11111111-2222-3333-4444-000000000000".into()),
        minor: Some(3),
        excluded: false,
    };
    assert_eq!(information(INFORMATION), expected);
    let excluded =
        information("GPU UUID: GPU-????????-????\nGPU Excluded:\t Yes\nDevice Minor: 4096");
    assert_eq!(excluded, Information { excluded: true, ..Information::default() });
}

#[test]
fn rows_with_and_without_a_fabric() {
    let (found, other) = rows(ROWS);
    let cluster_uuid = "a1b2c3d4-0000-1111-2222-333344445555".to_owned();
    let fabric = Fabric { cluster_uuid, clique_id: 7 };
    let row = |index, uuid: &str, pci: &str, fabric| Row {
        index,
        uuid: Some(uuid.into()),
        pci: pci.parse().unwrap(),
        model: "NVIDIA H100".into(),
        fabric,
    };
    let expected = [row(0, "GPU-1", "18:00.0", Some(fabric)), row(1, "GPU-2", "2a:00.0", None)];
    assert_eq!((found.as_slice(), other), (expected.as_slice(), 0));
    let zero = "00000000-0000-0000-0000-000000000000";
    assert_eq!(
        [fabric_of(zero, "0"), fabric_of("N/A", "0"), fabric_of("", "")],
        [None, None, None]
    );
    assert_eq!(rows("No devices were found\n"), (vec![], 1));
}

fn fabric_of(cluster: &str, clique: &str) -> Option<Fabric> {
    fabric(cluster, clique)
}

#[test]
fn slices_of_their_gpus() {
    let mig = |uuid: &str, profile: &str| Mig { uuid: uuid.into(), profile: profile.into() };
    let cut = vec![mig("MIG-aa", "1g.10gb"), mig("MIG-bb", "1g.10gb+me")];
    assert_eq!(slices(LISTING), BTreeMap::from([(0, cut), (1, vec![])]));
}

#[test]
fn what_stands_for_a_value_tells_a_lost_gpu() {
    let text = "0, GPU-1, 00000000:18:00.0, NVIDIA H100, 34\n\
        1, [GPU is lost], 00000000:2A:00.0, [GPU is lost], [GPU is lost]\n\
        2, GPU-3, 00000000:3A:00.0, NVIDIA H100, [GPU requires reset]\n\
        3, GPU-4, 00000000:5D:00.0, NVIDIA H100, [N/A]\n4, [GPU is lost], [GPU is lost]\n";
    let expected = [("2a:00.0", "gpu is lost"), ("3a:00.0", "gpu requires reset")];
    let expected = expected.map(|(pci, said)| (pci.parse().unwrap(), said.to_owned()));
    assert_eq!(faults(text), BTreeMap::from(expected));
}

#[test]
fn only_nvlink_is_taken_from_the_matrix() {
    let expected = Topology { gpus: BTreeSet::from([0, 1]), joins: BTreeMap::from([((0, 1), 18)]) };
    assert_eq!(topology(TOPOLOGY), expected);
}

fn all(text: &str) {
    let _ = (version(text), information(text));
    assert!(faults(text).values().all(|fault| fault.chars().count() <= 64));
    let (rows, _) = rows(text);
    assert!(rows.iter().all(|row| row.model.chars().count() <= MODEL && row.index < MOST));
    assert!(slices(text).values().all(|slices| slices.len() <= SLICES));
    let Topology { gpus, joins } = topology(text);
    assert!(gpus.iter().all(|gpu| *gpu < MOST));
    assert!(joins.keys().all(|(a, b)| a < b && *b < MOST));
}

proptest! {
    #[test]
    fn no_text_breaks_them(text in "(?s).{0,300}") {
        all(&text);
    }

    #[test]
    fn no_damage_breaks_them(which in 0usize..4, at: usize, with in "[\t\n,: GPUMIG0-9\u{1b}]{0,6}") {
        let mut text = [INFORMATION, LISTING, TOPOLOGY, ROWS][which].to_owned();
        let at = at % text.len();
        text.replace_range(at..=at, &with);
        all(&text);
    }
}
