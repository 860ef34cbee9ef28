use muster_proto::deviceplugin::v1beta1::DeviceSpec;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn answer(envs: &[(&str, &str)], files: &[&str]) -> ContainerAllocateResponse {
    let file = |path: &&str| DeviceSpec {
        container_path: (*path).into(),
        host_path: (*path).into(),
        permissions: "rw".into(),
    };
    ContainerAllocateResponse {
        envs: envs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        devices: files.iter().map(file).collect(),
        ..ContainerAllocateResponse::default()
    }
}

fn encoded(answer: &ContainerAllocateResponse) -> String {
    STANDARD.encode(answer.encode_to_vec())
}

fn sample() -> String {
    let real = encoded(&answer(&[("ASCEND_VISIBLE_DEVICES", "4,5")], &[]));
    let entry = |uid: &str, ids: serde_json::Value, answer: serde_json::Value| {
        json!({"PodUID": uid, "ContainerName": "c", "ResourceName": "huawei.com/Ascend910",
            "DeviceIDs": ids, "AllocResp": answer})
    };
    json!({"Data": {"PodDeviceEntries": [
            entry("new", json!({"0": ["Ascend910-1", "Ascend910-0"], "-1": ["Ascend910-0"]}), json!(real)),
            entry("old", json!(["Ascend910-3"]), json!(null)),
            entry("odd", json!({"0": null}), json!("not base64!")),
            {"PodUID": 7},
        ], "RegisteredDevices": {"huawei.com/Ascend910": ["Ascend910-0"]}},
        "Checksum": 1})
    .to_string()
}

#[test]
fn both_forms_of_ids_are_read_and_a_bad_entry_hides_no_other() {
    let read = Checkpoint::parse(&sample()).unwrap();
    assert_eq!(read.unread, 1);
    let ids: Vec<(&str, &[String])> =
        read.entries.iter().map(|entry| (entry.pod.as_str(), entry.ids.as_slice())).collect();
    let two = ["Ascend910-0".to_owned(), "Ascend910-1".to_owned()];
    assert_eq!(
        ids,
        [("new", &two[..]), ("old", &["Ascend910-3".to_owned()][..]), ("odd", &[][..])]
    );
    let really: Vec<_> = read.entries.iter().map(|entry| entry.really(Vendor::Ascend)).collect();
    assert_eq!(really, [Some(vec!["4".to_owned(), "5".to_owned()]), None, None]);
    assert_eq!(read.of("old").count(), 1);
}

#[test]
fn a_kubelet_that_gave_nothing_yet_has_an_empty_checkpoint() {
    for text in [
        r#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}"#,
        r#"{"Data":{}}"#,
    ] {
        assert_eq!(Checkpoint::parse(text).unwrap(), Checkpoint::default());
    }
    for text in ["", "{}", "[]", "null", r#"{"Data":[1]}"#] {
        assert_eq!(Checkpoint::parse(text).unwrap_err().reason(), "malformed", "{text}");
    }
    let large = " ".repeat(LARGEST + 1);
    assert_eq!(Checkpoint::parse(&large).unwrap_err().reason(), "too-large");
}

#[test]
fn a_long_list_of_nonsense_is_counted_and_not_kept() {
    let text = format!(r#"{{"Data":{{"PodDeviceEntries":[{}null]}}}}"#, "1,[],".repeat(50_000));
    let read = Checkpoint::parse(&text).unwrap();
    assert_eq!((read.entries.capacity(), read.unread), (0, 100_001));
    for text in ["{}", "1", "\"x\"", "true"] {
        let text = format!(r#"{{"Data":{{"PodDeviceEntries":{text}}}}}"#);
        assert_eq!(Checkpoint::parse(&text).unwrap_err().reason(), "malformed", "{text}");
    }
}

#[test]
fn what_a_plugin_really_gave_is_read_from_its_environment_or_its_files() {
    let ids = |all: &[&str]| Some(all.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
    let ascend = |value: &str| answer(&[("ASCEND_VISIBLE_DEVICES", value)], &[]);
    let nvidia = |value: &str| answer(&[("NVIDIA_VISIBLE_DEVICES", value)], &[]);
    let files = ["/dev/davinci11", "/dev/davinci2", "/dev/davinci_manager"];
    let slice = [("ASCEND_VISIBLE_DEVICES", "111"), ("ASCEND_RUNTIME_OPTIONS", "NODRV,VIRTUAL")];
    for (vendor, answer, expected) in [
        (Vendor::Ascend, ascend("0,1"), ids(&["0", "1"])),
        (Vendor::Ascend, ascend("0-3"), ids(&["0", "1", "2", "3"])),
        (Vendor::Ascend, ascend("0-1, 3"), ids(&["0", "1", "3"])),
        (Vendor::Ascend, ascend("Ascend910-10,Ascend910-2"), ids(&["2", "10"])),
        (Vendor::Ascend, ascend("3-0"), None),
        (Vendor::Ascend, ascend("0-4294967295"), None),
        (Vendor::Ascend, ascend("all"), None),
        (Vendor::Ascend, answer(&[], &files), ids(&["2", "11"])),
        (Vendor::Ascend, answer(&[("ASCEND_VISIBLE_DEVICES", "?")], &files), ids(&["2", "11"])),
        (Vendor::Ascend, answer(&slice, &[]), None),
        (Vendor::Ascend, nvidia("0"), None),
        (Vendor::Nvidia, nvidia("GPU-b,GPU-a"), ids(&["GPU-a", "GPU-b"])),
        (Vendor::Nvidia, nvidia("0,2"), ids(&["0", "2"])),
        (Vendor::Nvidia, nvidia("/var/run/nvidia-container-devices"), None),
        (Vendor::Nvidia, nvidia("MIG-a"), None),
        (Vendor::Nvidia, nvidia("all"), None),
    ] {
        let entry = CheckpointEntry { answer: Some(answer), ..CheckpointEntry::default() };
        assert_eq!(entry.really(vendor), expected, "{entry:?}");
    }
}

proptest! {
    #[test]
    fn no_file_is_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _read = Checkpoint::parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_damaged_checkpoint_is_read_or_refused(at in 0usize..2000, with in any::<char>(), cut: bool) {
        let sample = sample();
        let at = at % sample.len();
        let (before, after) = sample.split_at(at);
        let damaged = match cut {
            true => before.to_owned(),
            false => format!("{before}{with}{}", after.get(1..).unwrap_or_default()),
        };
        if let Ok(read) = Checkpoint::parse(&damaged) {
            prop_assert!(read.entries.len() + read.unread <= 5);
        }
    }

    #[test]
    fn what_was_given_stays_within_bounds(value in "[0-9,A-Za-z -]{0,40}", bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let envs = answer(&[("ASCEND_VISIBLE_DEVICES", &value), ("NVIDIA_VISIBLE_DEVICES", &value)], &[]);
        for answer in [Some(envs), decode(&STANDARD.encode(bytes))] {
            let entry = CheckpointEntry { answer, ..CheckpointEntry::default() };
            for vendor in [Vendor::Ascend, Vendor::Nvidia] {
                prop_assert!(entry.really(vendor).is_none_or(|ids| ids.len() <= MOST_DEVICES));
            }
        }
    }
}
