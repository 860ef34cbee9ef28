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
    assert_eq!(read, Record { damaged: true, ..Record::default() });
}

fn published(text: &str) -> Record {
    Record {
        state: State::Published,
        generation: 3,
        digest: Some(Digest::of(text.as_bytes())),
        content: Content::Text(text.to_owned()),
        file: "ranktable.json".into(),
        ..Record::default()
    }
}

#[test]
fn a_record_that_somebody_has_changed_is_written_again_and_others_are_not() {
    let (mut map, packed) = (stored(&published("table")), 40);
    assert!(!Record::read(&map).needs_mending(packed));
    let data = map.data.as_mut().unwrap();
    data.insert("a-key-of-their-own".into(), "x".into());
    let read = Record::read(&map);
    assert!(!read.needs_mending(packed), "more keys are no damage");
    assert_eq!((&*read.file, read.table()), ("ranktable.json", Some(b"table".to_vec())));

    let changed = |change: fn(&mut ConfigMap)| {
        let mut map = stored(&published("table"));
        change(&mut map);
        Record::read(&map).needs_mending(packed)
    };
    assert!(changed(|map| drop(map.metadata.labels.take())));
    assert!(changed(|map| drop(map.data.take())));
    assert!(changed(|map| map.data.as_mut().unwrap().values_mut().for_each(String::clear)));
    assert!(changed(|map| map.data.as_mut().unwrap().values_mut().for_each(|t| t.push('x'))));
    // One that is too large for a ConfigMap is not there, and that is right.
    let absent = Record { content: Content::None, ..published("table") };
    assert!(!Record::read(&stored(&absent)).needs_mending(LARGEST + 1));
}

#[test]
fn what_is_put_back_is_what_was_there() {
    let text = "rank ".repeat(100);
    let packed = Bytes::from(zstd::bulk::compress(text.as_bytes(), 3).unwrap());
    assert_eq!(Content::of(&text, 0), Content::Text(text.clone()));
    let full = LARGEST - packed.len();
    assert_eq!(Content::of(&text, full), Content::Packed(packed));
    assert_eq!(Content::of(&text, full + 1), Content::None);
}

#[test]
fn a_generation_that_nobody_can_follow_does_not_count() {
    for (text, read) in
        [(LAST_GENERATION, LAST_GENERATION), (LAST_GENERATION + 1, 0), (u64::MAX, 0)]
    {
        let record = Record { generation: text, ..published("table") };
        assert_eq!(Record::read(&stored(&record)).generation, read);
    }
}

proptest! {
    #[test]
    fn a_record_survives_its_config_map(
        generation in 0..=LAST_GENERATION,
        epoch in any::<u64>(),
        state in prop_oneof![Just(State::Empty), Just(State::Published), Just(State::Changing)],
        digests in proptest::collection::vec(proptest::option::of(any::<u64>()), 4),
        text in "[ -~]{0,40}",
        numbering in proptest::option::of(proptest::collection::vec(any::<u8>(), 1..40)),
    ) {
        let digest = |at: usize| digests[at].map(|seed| Digest::of(&seed.to_le_bytes()));
        let damaged = state == State::Published && !text.is_empty();
        let content = if text.is_empty() { Content::None } else { Content::Text(text) };
        let record = Record {
            generation, epoch, state, content,
            digest: digest(0), members: digest(1), input: digest(2), template: digest(3),
            changed: "2026-01-01T00:00:00Z".into(),
            file: "ranktable.json".into(),
            numbering: numbering.map(Bytes::from),
            resource_version: "7".into(),
            damaged,
            ..Record::default()
        };
        prop_assert_eq!(Record::read(&stored(&record)), record);
    }
}
