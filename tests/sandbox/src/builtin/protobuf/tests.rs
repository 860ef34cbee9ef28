use proptest::prelude::*;
use serde_json::json;

use super::*;

mod requests;

/// Made by `typetable sample`: objects as Go writes them in protobuf and in JSON.
static SAMPLES: std::sync::LazyLock<Vec<(Vec<u8>, Value)>> = std::sync::LazyLock::new(|| {
    let samples: Vec<Value> =
        serde_json::from_str(include_str!("../protobuf_samples.json")).unwrap();
    let read =
        |sample: &Value| (unhex(sample["protobuf"].as_str().unwrap()), sample["object"].clone());
    samples.iter().map(read).collect()
});

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A number with its tag.
fn number(tag: u64, value: i64) -> Vec<u8> {
    [varint(tag << 3), varint(value as u64)].concat()
}

/// Bytes, or a message of several parts, with their tag.
fn bytes(tag: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [varint(tag << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

fn message(tag: u64, parts: &[Vec<u8>]) -> Vec<u8> {
    bytes(tag, parts.concat())
}

fn body(api_version: &str, kind: &str, parts: &[Vec<u8>]) -> Vec<u8> {
    let meta = message(1, &[bytes(1, api_version), bytes(2, kind)]);
    [MAGIC.to_vec(), meta, message(2, parts), bytes(3, ""), bytes(4, "")].concat()
}

fn read(api_version: &str, kind: &str, parts: &[Vec<u8>]) -> Value {
    from_protobuf(&body(api_version, kind, parts)).unwrap()
}

fn refused(api_version: &str, kind: &str, parts: &[Vec<u8>]) -> String {
    let status = from_protobuf(&body(api_version, kind, parts)).unwrap_err();
    assert_eq!(status.code, 400);
    status.message
}

#[test]
fn what_go_encodes_reads_as_the_json_that_go_writes() {
    assert!(SAMPLES.len() >= 13);
    for (protobuf, object) in SAMPLES.iter() {
        let read = from_protobuf(protobuf).unwrap();
        assert_eq!(&read, object, "{} reads as {read:#}", object["kind"]);
    }
}

#[test]
fn numbers_keep_their_sign_and_zero_pointers_stay() {
    let spec = [number(4, 0), number(5, -1), number(25, i64::from(i32::MIN))];
    let pod = read("v1", "Pod", &[message(2, &spec)]);
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 0);
    assert_eq!(pod["spec"]["activeDeadlineSeconds"], -1);
    assert_eq!(pod["spec"]["priority"], i32::MIN);
}

#[test]
fn packed_and_separate_numbers_make_the_same_list() {
    let separate = [number(4, 1), number(4, 300), number(4, -1)];
    let packed = [bytes(4, [varint(1), varint(300), varint(u64::MAX)].concat())];
    for groups in [&separate[..], &packed[..]] {
        let pod = read("v1", "Pod", &[message(2, &[message(14, groups)])]);
        assert_eq!(pod["spec"]["securityContext"]["supplementalGroups"], json!([1, 300, -1]));
    }
}

#[test]
fn a_struct_in_two_parts_is_merged() {
    let parts = [message(1, &[bytes(1, "a")]), message(1, &[bytes(3, "b")])];
    let metadata = &read("v1", "ConfigMap", &parts)["metadata"];
    assert_eq!(metadata, &json!({"name": "a", "namespace": "b"}));
}

#[test]
fn map_entries_may_lack_their_key_or_value() {
    let map =
        read("v1", "ConfigMap", &[message(2, &[bytes(1, "a")]), message(2, &[bytes(2, "b")])]);
    assert_eq!(map["data"], json!({"a": "", "": "b"}));
    let secret = read("v1", "Secret", &[message(2, &[bytes(1, "a")])]);
    assert_eq!(secret["data"], json!({"a": ""}));
}

#[test]
fn times_read_as_text() {
    let time = |parts: &[Vec<u8>]| {
        read("v1", "Pod", &[message(1, &[message(8, parts)])])["metadata"]["creationTimestamp"]
            .clone()
    };
    assert_eq!(time(&[number(1, 1), number(2, 999)]), "1970-01-01T00:00:01Z");
    assert_eq!(time(&[number(1, -1)]), "1969-12-31T23:59:59Z");
    assert_eq!(time(&[number(2, 0)]), "1970-01-01T00:00:00Z");
    assert_eq!(time(&[]), Value::Null);
    let renewed = |parts: &[Vec<u8>]| {
        let spec = message(2, &[message(4, parts)]);
        read("coordination.k8s.io/v1", "Lease", &[spec])["spec"]["renewTime"].clone()
    };
    assert_eq!(renewed(&[number(1, 1), number(2, 1999)]), "1970-01-01T00:00:01.000001Z");
    assert_eq!(renewed(&[number(1, 1), number(2, -1000)]), "1970-01-01T00:00:00.999999Z");
}

#[test]
fn unknown_fields_of_all_wire_types_are_skipped() {
    let group = |inner: &[u8]| [varint(99 << 3 | 3), inner.to_vec(), varint(99 << 3 | 4)].concat();
    let parts = [
        number(99, 5),
        bytes(99, "x"),
        [varint(99 << 3 | 1), vec![0; 8]].concat(),
        [varint(99 << 3 | 5), vec![0; 4]].concat(),
        group(&group(&number(1, 1))),
        message(2, &[bytes(1, "k"), bytes(2, "v")]),
    ];
    assert_eq!(read("v1", "ConfigMap", &parts)["data"], json!({"k": "v"}));
}

#[test]
fn delete_options_belong_to_every_group() {
    for api_version in ["v1", "apps/v1", "meta.k8s.io/v1", "policy/v1beta1"] {
        let options = read(api_version, "DeleteOptions", &[number(1, 3)]);
        let expected =
            json!({"apiVersion": api_version, "kind": "DeleteOptions", "gracePeriodSeconds": 3});
        assert_eq!(options, expected);
    }
}

#[test]
fn what_is_only_sent_is_no_stored_kind() {
    assert!(TABLE.kind("authentication.k8s.io", "TokenReview").is_none());
    assert!(TABLE.sent("authentication.k8s.io", "TokenReview").is_some());
    assert_eq!(crate::builtin::namespaced("authentication.k8s.io", "TokenReview"), None);
}

#[test]
fn malformed_bodies_are_refused_in_words() {
    let deep = [varint(99 << 3 | 3).repeat(65), varint(99 << 3 | 4).repeat(65)].concat();
    let pod = |parts: &[Vec<u8>]| refused("v1", "Pod", parts);
    let in_name = |part: Vec<u8>| pod(&[message(1, &[part])]);
    let quantity = message(1, &[bytes(1, "cpu"), message(2, &[bytes(1, "much")])]);
    let cases = [
        (in_name(number(1, 1)), "v1.ObjectMeta.name: wrong wire type, expected bytes"),
        (in_name(bytes(1, [0xff])), "v1.ObjectMeta.name: not UTF-8"),
        (in_name(bytes(7, "1")), "v1.ObjectMeta.generation: wrong wire type, expected a varint"),
        (in_name(vec![0x0a, 5, b'a']), "v1.Pod.metadata: unexpected EOF"),
        (in_name(vec![0x0a, 0xff]), "unexpected EOF"),
        (in_name([vec![0x0a], vec![0xff; 9], vec![1]].concat()), "unexpected EOF"),
        (in_name([vec![0x38], vec![0xff; 10]].concat()), "integer overflow"),
        (in_name(vec![0x0e]), "illegal wire type 6"),
        (in_name(vec![0x0c]), "illegal wire type 4"),
        (in_name(vec![0x00, 0x00]), "illegal tag 0"),
        (pod(&[deep]), "groups nest too deep"),
        (pod(&[[varint(99 << 3 | 3), varint(98 << 3 | 4)].concat()]), "unexpected end of group 98"),
        (in_name(message(8, &[number(1, i64::MAX)])), "seconds is out of range"),
        (refused("v1", "ResourceQuota", &[message(2, &[quantity])]), "quantities must match"),
        (refused("apps/v1", "ControllerRevision", &[message(2, &[bytes(1, "{")])]), "not JSON"),
        (
            refused("v1", "Service", &[message(2, &[message(1, &[message(4, &[number(1, 2)])])])]),
            "v1.ServicePort.targetPort: impossible type 2",
        ),
    ];
    for (message, expected) in cases {
        assert!(message.contains(expected), "{message:?} does not say {expected:?}");
        assert!(message.contains(" cannot be handled as a "), "{message:?}");
    }
}

#[test]
fn kinds_and_versions_that_the_table_lacks_are_refused() {
    for (api_version, kind) in [
        ("v1", "Gadget"),
        ("", "Pod"),
        ("v1", ""),
        ("v2", "Pod"),
        ("autoscaling/v1", "HorizontalPodAutoscaler"),
        ("policy/v1beta1", "Eviction"),
    ] {
        let expected = format!("no kind {kind:?} is registered for version {api_version:?}");
        assert_eq!(refused(api_version, kind, &[]), expected);
    }
}

#[test]
fn bodies_without_the_envelope_are_refused() {
    for body in [&b""[..], b"k8s", b"{\"kind\":\"Pod\"}"] {
        let status = from_protobuf(body).unwrap_err();
        assert_eq!(status.code, 400);
        assert!(status.message.contains("expected prefix [107 56 115 0]"), "{}", status.message);
    }
    let cut = from_protobuf(b"k8s\0\x0a\x05").unwrap_err();
    assert_eq!(cut.message, "illegal protobuf envelope: unexpected EOF");
}

#[test]
fn a_sample_cut_off_anywhere_is_read_or_refused() {
    for (protobuf, _) in SAMPLES.iter() {
        for end in 0..protobuf.len() {
            if let Err(status) = from_protobuf(&protobuf[..end]) {
                assert_eq!(status.code, 400);
            }
        }
    }
}

#[test]
fn every_field_has_a_number_but_for_the_type() {
    fn depth(shape: &'static Struct, limit: usize) {
        assert!(limit > 0, "{} nests too deep", shape.go);
        for field in &shape.fields {
            let typed = matches!(field.name, "apiVersion" | "kind");
            assert!(field.wire != "-" || typed, "{}.{}", shape.go, field.name);
            let mut ty = &field.ty;
            while let Type::Pointer(inner) | Type::List(_, inner) | Type::Map(_, inner) = ty {
                ty = inner;
            }
            // Schemas hold themselves; how deep is checked when they are read.
            if let Type::Struct(at) = ty
                && TABLE.at(*at).name != shape.name
            {
                depth(TABLE.at(*at), limit - 1);
            }
        }
    }
    for (_, object) in SAMPLES.iter() {
        let api_version = object["apiVersion"].as_str().unwrap();
        let kind = object["kind"].as_str().unwrap();
        let (_, _, shape) = Envelope { api_version, kind, object: &[] }.shape().unwrap();
        depth(shape, 32);
    }
}

proptest! {
    #[test]
    fn random_objects_never_panic(at in 0..64usize, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (_, object) = &SAMPLES[at % SAMPLES.len()];
        let text = |name: &str| object[name].as_str().unwrap().to_owned();
        let _ = from_protobuf(&bytes);
        let _ = from_protobuf(&body(&text("apiVersion"), &text("kind"), &[bytes]));
    }

    #[test]
    fn changed_samples_never_panic(
        at in 0..64usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..8),
    ) {
        let mut protobuf = SAMPLES[at % SAMPLES.len()].0.clone();
        for (place, byte, change) in changes {
            let place = place.index(protobuf.len());
            match change {
                0 => protobuf[place] = byte,
                1 => protobuf.insert(place, byte),
                _ if protobuf.len() > 1 => { protobuf.remove(place); }
                _ => {}
            }
        }
        if let Err(status) = from_protobuf(&protobuf) {
            prop_assert_eq!(status.code, 400);
        }
    }
}

#[test]
fn schemas_nest_as_deep_as_json_can() {
    let nested = |levels: usize| {
        let mut schema = bytes(5, "object");
        for _ in 0..levels {
            schema = message(29, &[bytes(1, "a"), bytes(2, &schema)]);
        }
        let version = message(7, &[message(4, &[message(1, &[schema])])]);
        body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &[message(2, &[version])])
    };
    let read = from_protobuf(&nested(60)).unwrap();
    assert!(serde_json::from_str::<Value>(&read.to_string()).is_ok());
    let status = from_protobuf(&nested(61)).unwrap_err();
    assert!(status.message.ends_with("more than 64 messages in one another"), "{}", status.message);
}
