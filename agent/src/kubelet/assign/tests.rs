use muster_proto::device::Device;
use muster_proto::deviceplugin::v1beta1::ContainerAllocateResponse;
use muster_proto::podresources::v1::{ContainerDevices, ContainerResources};
use proptest::prelude::*;

use super::super::checkpoint::CheckpointEntry;
use super::*;

const NPU: &str = "huawei.com/Ascend910";
const GPU: &str = "nvidia.com/gpu";

/// A node with eight of each.
fn inventory() -> Inventory {
    let mut inventory = Inventory { settled: true, ..Inventory::default() };
    for id in 0..8 {
        inventory.devices.push(Device::new(Vendor::Ascend, id, ""));
        let mut gpu = Device::new(Vendor::Nvidia, id, "");
        gpu.uuid = Some(format!("GPU-{id}"));
        inventory.devices.push(gpu);
    }
    inventory.sort();
    inventory
}

fn meta(name: &str, uid: &str, annotations: &[(&str, &str)]) -> PodMeta {
    let of = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    PodMeta {
        pod: PodRef { namespace: "ns".into(), name: name.into(), uid: uid.into() },
        annotations: annotations.iter().map(of).collect(),
        rank_group: None,
        deleting: false,
    }
}

fn pods(all: impl IntoIterator<Item = PodMeta>) -> PodMap {
    all.into_iter().map(|pod| (pod.key(), pod)).collect()
}

/// As the kubelet sends it: one device per entry.
fn listed(pod: &str, containers: &[(&str, &str, &[&str])]) -> PodResources {
    let devices = |resource: &str, ids: &[&str]| {
        let one = |id: &&str| ContainerDevices {
            resource_name: resource.into(),
            device_ids: vec![(*id).into()],
            topology: None,
        };
        ids.iter().map(one).collect()
    };
    let container = |(name, resource, ids): &(&str, &str, &[&str])| ContainerResources {
        name: (*name).into(),
        devices: devices(resource, ids),
        ..ContainerResources::default()
    };
    PodResources {
        name: pod.into(),
        namespace: "ns".into(),
        containers: containers.iter().map(container).collect(),
    }
}

fn entry(
    uid: &str,
    container: &str,
    resource: &str,
    ids: &[&str],
    visible: Option<&str>,
) -> CheckpointEntry {
    let key = if resource == GPU { "NVIDIA_VISIBLE_DEVICES" } else { "ASCEND_VISIBLE_DEVICES" };
    CheckpointEntry {
        pod: uid.into(),
        container: container.into(),
        resource: resource.into(),
        ids: ids.iter().map(|id| (*id).into()).collect(),
        answer: visible.map(|value| ContainerAllocateResponse {
            envs: [(key.to_owned(), value.to_owned())].into(),
            ..ContainerAllocateResponse::default()
        }),
    }
}

fn decide(
    pods: &PodMap,
    listed: Option<Vec<PodResources>>,
    entries: Option<Vec<CheckpointEntry>>,
) -> Assignment {
    decide_after(&[], &[], pods, listed, entries)
}

/// The same when this was decided before, and these have ended.
fn decide_after(
    last: &[PodDevices],
    ended: &[&str],
    pods: &PodMap,
    listed: Option<Vec<PodResources>>,
    entries: Option<Vec<CheckpointEntry>>,
) -> Assignment {
    let ended = ended.iter().map(|uid| (*uid).to_owned()).collect();
    let listed = listed.map(|pod_resources| ListPodResourcesResponse { pod_resources });
    let checkpoint = entries.map(|entries| Checkpoint { entries, unread: 0 });
    assign(AssignInput {
        pods,
        listed: listed.as_ref(),
        checkpoint: checkpoint.as_ref(),
        inventory: &inventory(),
        resources: &ResourceNames::default(),
        last,
        ended: &ended,
    })
}

/// `pod: container/id …`
fn messages(assignment: &Assignment) -> Vec<String> {
    let one = |pod: &PodDevices| {
        let held = pod.devices.iter().map(|held| match &held.part {
            Some(part) => format!(" {}/{}[{part}]", held.container, held.id),
            None => format!(" {}/{}", held.container, held.id),
        });
        format!("{}:{}", pod.pod.name, held.collect::<String>())
    };
    assignment.pods.iter().map(one).collect()
}

fn reasons(assignment: &Assignment) -> Vec<(&str, &str)> {
    assignment.findings.iter().map(|f| (f.reason, f.subject.as_str())).collect()
}

#[test]
fn pod_resources_alone_tell_the_devices_once_and_in_order() {
    let ids = ["Ascend910-3", "Ascend910-1", "Ascend910-3", "Ascend910-2"];
    let found = decide(
        &pods([meta("a", "1", &[])]),
        Some(vec![
            listed("a", &[("c", NPU, &ids), ("side", "rdma/hca", &["x"])]),
            listed("stranger", &[("c", NPU, &["Ascend910-7"])]),
        ]),
        None,
    );
    assert_eq!(messages(&found), ["a: c/1 c/2 c/3"]);
    assert_eq!((found.findings, found.unresolved), (vec![], vec![]));
}

#[test]
fn the_checkpoint_alone_tells_the_devices_too() {
    let entries = vec![
        entry("1", "c", NPU, &["Ascend910-0"], None),
        entry("9", "c", NPU, &["Ascend910-1"], None),
    ];
    assert_eq!(messages(&decide(&pods([meta("a", "1", &[])]), None, Some(entries))), ["a: c/0"]);
    assert_eq!(decide(&pods([meta("a", "1", &[])]), None, None), Assignment::default());
}

#[test]
fn the_truth_is_taken_from_the_first_source_that_fits() {
    let given = ["Ascend910-0", "Ascend910-1"];
    let real = (names::ASCEND_REAL, "Ascend910-6,Ascend910-7");
    let few = (names::ASCEND_REAL, "Ascend910-6");
    let klt = (names::ASCEND_KUBELET, "Ascend910-1,Ascend910-0");
    let other_klt = (names::ASCEND_KUBELET, "Ascend910-1,Ascend910-2");
    let chosen = (NPU, "Ascend910-2,Ascend910-3");
    let same = (NPU, "Ascend910-1,Ascend910-0");
    let disagrees = "annotation-disagrees";
    let waits = &["annotation-unconfirmed"];
    type Row<'a> =
        (&'a [(&'a str, &'a str)], Option<Option<&'a str>>, Option<&'a str>, &'a [&'a str]);
    let rows: [Row; 15] = [
        // Root's word beats that of whoever made the pod, and both are told.
        (&[real, klt, chosen], Some(Some("4,5")), Some("a: c/4 c/5"), &[disagrees, disagrees]),
        (&[real], Some(Some("4,5")), Some("a: c/4 c/5"), &[disagrees]),
        (&[real], Some(Some("6,7")), Some("a: c/6 c/7"), &[]),
        (&[real], None, Some("a: c/6 c/7"), &[]),
        (&[real, klt, chosen], Some(None), Some("a: c/6 c/7"), &[]),
        (&[few], Some(Some("4,5")), Some("a: c/4 c/5"), &[]),
        (&[klt, chosen], Some(Some("4,5")), Some("a: c/4 c/5"), &[disagrees]),
        (&[klt, chosen], Some(Some("4")), Some("a: c/2 c/3"), &[]),
        (&[klt, chosen], Some(None), Some("a: c/2 c/3"), &[]),
        (&[klt, chosen], None, Some("a: c/2 c/3"), &[]),
        // Nobody says yet whether the scheduler or the kubelet is right.
        (&[other_klt, chosen], None, None, waits),
        (&[chosen], Some(None), None, waits),
        (&[same], None, Some("a: c/0 c/1"), &[]),
        (&[few], Some(None), Some("a: c/0 c/1"), &[]),
        (&[], Some(Some("0-1")), Some("a: c/0 c/1"), &[]),
    ];
    for (annotations, checkpoint, expected, findings) in rows {
        let row = format!("{annotations:?} {checkpoint:?}");
        let entries = checkpoint.map(|visible| vec![entry("1", "c", NPU, &given, visible)]);
        let pods = pods([meta("a", "1", annotations)]);
        let found = decide(&pods, Some(vec![listed("a", &[("c", NPU, &given)])]), entries);
        assert_eq!(messages(&found), expected.into_iter().collect::<Vec<_>>(), "{row}");
        assert_eq!(found.unresolved.len(), usize::from(expected.is_none()), "{row}");
        let reasons: Vec<&str> = found.findings.iter().map(|finding| finding.reason).collect();
        assert_eq!(reasons, findings, "{row}");
    }
}

#[test]
fn an_annotation_that_contradicts_the_plugin_is_named_with_both() {
    let pods = pods([meta("a", "1", &[(names::ASCEND_REAL, "Ascend910-6,Ascend910-7")])]);
    let given = entry("1", "c", NPU, &["Ascend910-0", "Ascend910-1"], Some("4,5"));
    let found = decide(&pods, None, Some(vec![given]));
    assert_eq!(reasons(&found), [("annotation-disagrees", "ns/a: huawei.com/AscendReal")]);
    let message = &found.findings[0].message;
    assert!(message.contains("6,7") && message.contains("4,5"), "{message}");
}

#[test]
fn what_was_known_of_a_pod_stays_while_it_cannot_be_told() {
    let all = pods([meta("a", "1", &[])]);
    let list = |id: &str| Some(vec![listed("a", &[("c", GPU, &[id])])]);
    let before = decide(&all, list("GPU-1"), None);
    assert_eq!(messages(&before), ["a: c/1"]);
    let after = decide_after(&before.pods, &[], &all, list("GPU-x"), None);
    assert_eq!((messages(&after), after.unresolved.len()), (vec!["a: c/1".to_owned()], 1));
    let empty = decide_after(&before.pods, &[], &all, None, Some(vec![]));
    assert_eq!((messages(&empty), empty.unresolved.len()), (vec!["a: c/1".to_owned()], 1));
    let nothing = decide_after(&before.pods, &[], &all, Some(vec![listed("a", &[])]), None);
    assert_eq!((nothing.pods.len(), nothing.unresolved.len()), (0, 0), "the kubelet said so");
    let other = pods([meta("a", "2", &[])]);
    let after = decide_after(&before.pods, &[], &other, list("GPU-x"), None);
    assert_eq!(messages(&after), Vec::<String>::new(), "another pod of the name");
}

#[test]
fn a_pod_that_the_kubelet_no_longer_lists_holds_nothing() {
    let all = pods([meta("a", "1", &[])]);
    let file = || {
        let init = entry("1", "init", NPU, &["Ascend910-0", "Ascend910-1"], None);
        Some(vec![init, entry("1", "main", NPU, &["Ascend910-0"], None)])
    };
    // It may be newer than the list.
    let new = decide(&all, Some(vec![]), file());
    assert_eq!((new.pods.len(), new.unresolved.len()), (0, 1));
    let before = decide(&all, Some(vec![listed("a", &[("main", NPU, &["Ascend910-0"])])]), file());
    assert_eq!(messages(&before), ["a: main/0"]);
    let ending = decide_after(&before.pods, &[], &all, Some(vec![]), file());
    assert_eq!((messages(&ending), ending.unresolved.len()), (vec!["a: main/0".to_owned()], 1));
    let ended = decide_after(&before.pods, &["1"], &all, Some(vec![]), file());
    assert_eq!((ended.pods.len(), ended.unresolved.len()), (0, 0));
    let silent = decide_after(&before.pods, &["1"], &all, None, file());
    assert_eq!(silent.pods.len(), 1, "no list says nothing of it");
}

#[test]
fn a_static_pod_is_found_by_the_uid_that_the_kubelet_made() {
    let hash = "0123456789abcdef0123456789abcdef";
    let found = |hash: &str, mirror: &str| {
        let annotations = [(names::CONFIG_HASH, hash), (names::CONFIG_MIRROR, mirror)];
        let file = vec![entry(hash, "c", NPU, &["Ascend910-2"], None)];
        let list = vec![listed("a", &[("c", NPU, &["Ascend910-2"])])];
        messages(&decide(&pods([meta("a", "1", &annotations)]), Some(list), Some(file)))
    };
    assert_eq!(found(hash, hash), ["a: c/2"]);
    let none = Vec::<String>::new();
    assert_eq!(found(hash, ""), none, "not the copy of a static pod");
    let uid = "11111111-2222-3333-4444-555555555555";
    assert_eq!(found(uid, uid), none, "nobody takes the devices of an ordinary pod");
}

#[test]
fn the_plugins_answers_tell_which_container_has_which() {
    let real = (names::ASCEND_REAL, "Ascend910-4,Ascend910-5,Ascend910-6");
    let pods = pods([meta("a", "1", &[real])]);
    let with = |second: &str| {
        vec![
            entry("1", "x", NPU, &["Ascend910-0"], Some("6")),
            entry("1", "y", NPU, &["Ascend910-1", "Ascend910-2"], Some(second)),
        ]
    };
    assert_eq!(messages(&decide(&pods, None, Some(with("4,5")))), ["a: y/4 y/5 x/6"]);
    assert_eq!(messages(&decide(&pods, None, Some(with("3,5")))), ["a: y/3 y/5 x/6"]);
}

#[test]
fn a_pod_made_anew_does_not_inherit_the_devices_of_its_name() {
    let pods = pods([meta("a", "new", &[])]);
    let old = listed("a", &[("c", NPU, &["Ascend910-0"])]);
    let of_old = entry("old", "c", NPU, &["Ascend910-0"], None);
    let of_new = entry("new", "c", NPU, &["Ascend910-5"], None);
    let none = decide(&pods, Some(vec![old.clone()]), Some(vec![of_old.clone()]));
    assert_eq!(messages(&none), Vec::<String>::new());
    let found = decide(&pods, Some(vec![old.clone()]), Some(vec![of_old, of_new]));
    assert_eq!(messages(&found), ["a: c/5"]);
    let empty = decide(&pods, Some(vec![old]), Some(vec![]));
    assert_eq!(messages(&empty), ["a: c/0"], "a checkpoint without entries says nothing");
    let list = ListPodResourcesResponse {
        pod_resources: vec![listed("a", &[("c", NPU, &["Ascend910-0"])])],
    };
    let torn = assign(AssignInput {
        pods: &pods,
        listed: Some(&list),
        checkpoint: Some(&Checkpoint {
            entries: vec![entry("other", "c", NPU, &["Ascend910-1"], None)],
            unread: 1,
        }),
        inventory: &inventory(),
        resources: &ResourceNames::default(),
        last: &[],
        ended: &BTreeSet::new(),
    });
    assert_eq!(messages(&torn), ["a: c/0"], "its entry may be the one that cannot be read");
}

#[test]
fn what_a_plain_init_container_held_is_told_of_the_main_container_only() {
    let pods = pods([meta("a", "1", &[])]);
    let entries = vec![
        entry("1", "init", NPU, &["Ascend910-0", "Ascend910-1"], None),
        entry("1", "main", NPU, &["Ascend910-0"], None),
    ];
    let runs = listed("a", &[("main", NPU, &["Ascend910-0"])]);
    assert_eq!(messages(&decide(&pods, Some(vec![runs]), Some(entries))), ["a: main/0"]);
}

#[test]
fn slices_keep_the_ids_that_the_kubelet_gave() {
    let pods = pods([meta("a", "1", &[])]);
    let virtual_npu = "huawei.com/Ascend910-2c";
    let entries = vec![
        entry("1", "c", virtual_npu, &["Ascend910-2c-111-3"], Some("111")),
        entry("1", "d", GPU, &["GPU-5::0", "GPU-5::1"], Some("GPU-5")),
        entry("1", "e", "huawei.com/npu-core", &["npu-core-1", "npu-core-2"], Some("6")),
    ];
    let found = decide(&pods, None, Some(entries));
    let expected = "a: c/3[Ascend910-2c-111-3] e/6[npu-core] d/5[GPU-5::0] d/5[GPU-5::1]";
    assert_eq!(messages(&found), [expected]);
}

#[test]
fn a_device_that_nobody_knows_is_a_finding() {
    let all = pods([meta("a", "1", &[]), meta("b", "2", &[]), meta("c", "3", &[])]);
    let list = || {
        vec![
            listed("a", &[("c", NPU, &["Ascend910-9"])]),
            listed("b", &[("c", GPU, &["GPU-x", "GPU-1"])]),
            listed("c", &[("c", GPU, &["GPU-2"])]),
        ]
    };
    let found = decide(&all, Some(list()), None);
    assert_eq!(messages(&found), ["a: c/9", "c: c/2"], "a pod is told of as a whole or not at all");
    assert_eq!(found.unresolved.len(), 1);
    assert_eq!(reasons(&found), [("device-unknown", "ns/a: 9"), ("device-unknown", "ns/b: GPU-x")]);
    let early = assign(AssignInput {
        pods: &all,
        listed: Some(&ListPodResourcesResponse { pod_resources: list() }),
        checkpoint: None,
        inventory: &Inventory::default(),
        resources: &ResourceNames::default(),
        last: &[],
        ended: &BTreeSet::new(),
    });
    assert_eq!((early.findings, early.unresolved.len()), (vec![], 2), "discovery is not done");
}

#[test]
fn a_device_with_two_holders_is_a_finding_that_names_both() {
    let mut leaving = meta("c", "3", &[]);
    leaving.deleting = true;
    let all = pods([meta("a", "1", &[]), meta("b", "2", &[]), leaving]);
    let list = |second: &str, third: &str| {
        Some(vec![
            listed("a", &[("c", NPU, &["Ascend910-1"])]),
            listed("b", &[("c", NPU, &[second])]),
            listed("c", &[("c", NPU, &[third])]),
        ])
    };
    let found = decide(&all, list("Ascend910-1", "Ascend910-2"), None);
    assert_eq!(reasons(&found), [("device-held-twice", "npu 1")]);
    assert!(found.findings[0].message.contains("ns/a and ns/b"), "{:?}", found.findings);
    assert_eq!(decide(&all, list("Ascend910-3", "Ascend910-1"), None).findings, []);
    let shared = Some(vec![
        listed("a", &[("c", NPU, &["Ascend910-1-1"])]),
        listed("b", &[("c", NPU, &["Ascend910-1-2"])]),
    ]);
    assert_eq!(decide(&all, shared, None).findings, []);
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        (0u32..10).prop_map(|id| format!("Ascend910-{id}")),
        (0u32..10).prop_map(|id| format!("GPU-{id}")),
        "[A-Za-z0-9:_-]{0,12}",
    ]
}

proptest! {
    #[test]
    fn whatever_is_said_the_answer_is_sorted_and_of_known_pods(
        given in prop::collection::vec((0usize..4, 0usize..3, prop::collection::vec(id(), 0..6)), 0..8),
        kept in prop::collection::vec((0usize..4, prop::collection::vec(id(), 0..6), "[0-9,-]{0,8}"), 0..8),
        real in "[A-Za-z0-9,-]{0,30}",
        has_list: bool, has_file: bool,
    ) {
        let names = ["a", "b", "c", "d"];
        let resources = [NPU, GPU, "x/y"];
        let all = pods([meta("a", "a", &[(names::ASCEND_REAL, &real)]), meta("b", "b", &[(NPU, &real)]), meta("c", "c2", &[])]);
        let list = given.iter().map(|(pod, resource, ids)| {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            listed(names[*pod], &[("c", resources[*resource], &ids)])
        }).collect();
        let file = kept.iter().map(|(pod, ids, visible)| {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            entry(names[*pod], "c", NPU, &ids, Some(visible))
        }).collect();
        let found = decide(&all, has_list.then_some(list), has_file.then_some(file));
        prop_assert!(found.pods.is_sorted_by(|a, b| a.pod < b.pod));
        for pod in &found.pods {
            prop_assert!(!pod.devices.is_empty());
            prop_assert!(pod.devices.is_sorted_by(|a, b| a < b), "sorted, each once");
            prop_assert!(all.values().any(|known| known.pod == pod.pod));
        }
    }
}
