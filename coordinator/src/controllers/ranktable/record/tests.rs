use proptest::prelude::*;

use super::*;

fn key() -> GroupKey {
    GroupKey { namespace: "n".into(), name: "g".into() }
}

fn stored(record: &Record) -> ConfigMap {
    serde_json::from_value(record.write(&key())).unwrap()
}

#[test]
fn an_empty_record_is_the_seeds_empty_config_map() {
    let map = stored(&Record::empty("ranktable.json", Vec::new(), 3));
    assert_eq!(map.metadata.name.as_deref(), Some("g-ranktable"));
    assert_eq!(map.data.unwrap(), BTreeMap::from([("ranktable.json".to_owned(), String::new())]));
}

#[test]
fn a_table_comes_back_from_its_record_however_it_is_kept() {
    let text = "rank ".repeat(100);
    let digest = Some(Digest::of(text.as_bytes()));
    let packed = Bytes::from(zstd::bulk::compress(text.as_bytes(), 3).unwrap());
    for content in [Content::Text(text.clone()), Content::Packed(packed)] {
        let record = Record { digest, content, file: "t.json".into(), ..Record::default() };
        let read = Record::read(&stored(&record));
        assert_eq!(read.table().unwrap(), text.as_bytes());
        assert_eq!(read.file, "t.json");
    }
}

#[test]
fn a_table_that_somebody_has_changed_is_none() {
    let record = Record {
        digest: Some(Digest::of(b"one")),
        content: Content::Text("other".into()),
        ..Record::default()
    };
    assert_eq!(record.table(), None);
    let record = Record { content: Content::Packed(Bytes::from_static(b"no zstd")), ..record };
    assert_eq!(record.table(), None);
}

#[test]
fn what_somebody_has_broken_counts_as_missing() {
    let map: ConfigMap = serde_json::from_value(serde_json::json!({"metadata": {"annotations": {
        GENERATION: "many", DIGEST: "x", STATE: "?", CONDITIONS: "{", EPOCH: "-1"}}}))
    .unwrap();
    let read = Record::read(&map);
    assert_eq!(read, Record::default());
}

proptest! {
    #[test]
    fn a_record_survives_its_config_map(
        generation in any::<u64>(),
        epoch in any::<u64>(),
        state in prop_oneof![Just(State::Empty), Just(State::Published), Just(State::Changing)],
        digests in proptest::collection::vec(proptest::option::of(any::<u64>()), 4),
        text in "[ -~]{0,40}",
        numbering in proptest::option::of(proptest::collection::vec(any::<u8>(), 1..40)),
    ) {
        let digest = |at: usize| digests[at].map(|seed| Digest::of(&seed.to_le_bytes()));
        let content = if text.is_empty() { Content::None } else { Content::Text(text) };
        let record = Record {
            generation, epoch, state, content,
            digest: digest(0), members: digest(1), input: digest(2), template: digest(3),
            changed: "2026-01-01T00:00:00Z".into(),
            file: "ranktable.json".into(),
            numbering: numbering.map(Bytes::from),
            resource_version: "7".into(),
            ..Record::default()
        };
        prop_assert_eq!(Record::read(&stored(&record)), record);
    }
}
