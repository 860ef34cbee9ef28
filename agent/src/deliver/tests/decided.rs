//! What is decided.

use super::*;

#[test]
fn orders_are_followed_or_refused_for_one_reason() {
    let mut records = Records::default();
    records.saw(7);
    records.set(place(), record(4, b"four"));
    let good = || order(5, b"five");
    let with = |change: &dyn Fn(&mut Delivery)| {
        let mut order = good();
        change(&mut order);
        order
    };
    let table: Vec<(Delivery, u64, Option<PodFacts>, &str)> = vec![
        (good(), 7, Some(pod()), "write"),
        (good(), 8, Some(pod()), "write"),
        (order(4, b"four"), 7, Some(pod()), "already-there"),
        (good(), 6, Some(pod()), "older-epoch"),
        (order(3, b"three"), 7, Some(pod()), "older-generation"),
        (order(4, b"other"), 7, Some(pod()), "generation-reused"),
        (good(), 7, None, "unknown-pod"),
        (good(), 7, Some(PodFacts { uid: "other".into(), ..pod() }), "unknown-pod"),
        (good(), 7, Some(PodFacts { rank_group: None, ..pod() }), "not-a-member"),
        (good(), 7, Some(PodFacts { deleting: true, ..pod() }), "pod-deleting"),
        (with(&|o| o.place.pod_uid = "..".into()), 7, Some(pod()), "bad-uid"),
        (with(&|o| o.place.pod_uid = UID.replace('-', "/")), 7, Some(pod()), "bad-uid"),
        (with(&|o| o.place.volume = "../x".into()), 7, Some(pod()), "bad-volume"),
        (with(&|o| o.place.volume = "x".repeat(64)), 7, Some(pod()), "bad-volume"),
        (with(&|o| o.place.volume = String::new()), 7, Some(pod()), "bad-volume"),
        (with(&|o| o.place.file = "..".into()), 7, Some(pod()), "bad-file"),
        (with(&|o| o.place.file = ".hidden".into()), 7, Some(pod()), "bad-file"),
        (with(&|o| o.place.file = "a/b".into()), 7, Some(pod()), "bad-file"),
        (with(&|o| o.place.file = "a\0b".into()), 7, Some(pod()), "bad-file"),
        (with(&|o| o.place.file = "x.generation".into()), 7, Some(pod()), "bad-file"),
        (with(&|o| o.place.file = "x".repeat(129)), 7, Some(pod()), "bad-file"),
        (with(&|o| o.mode = 0o4755), 7, Some(pod()), "bad-mode"),
        (with(&|o| o.mode = 0o1644), 7, Some(pod()), "bad-mode"),
        (with(&|o| o.mode = 0o666), 7, Some(pod()), "bad-mode"),
    ];
    for (order, epoch, pod, wanted) in table {
        let told = match decide(&records, epoch, &order, pod.as_ref()) {
            Decision::Write => "write",
            Decision::AlreadyThere => "already-there",
            Decision::Refuse(refusal) => refusal.reason(),
        };
        assert_eq!(told, wanted, "{order:?} of epoch {epoch}");
    }
    assert_eq!(check_packed(17 << 20).unwrap_err().reason(), "too-large");
    let hash = Place { pod_uid: "0123456789abcdef0123456789ABCDEF".into(), ..place() };
    assert_eq!(check_place(&hash), Ok(()));
}

proptest! {
    #[test]
    fn nothing_older_ever_replaces_something_newer(
        orders in proptest::collection::vec((0u64..6, 0u64..6, 0u8..3), 1..60),
    ) {
        let mut records = Records::default();
        let mut newest: Option<(u64, u8)> = None;
        let mut highest = 0;
        for (epoch, generation, content) in orders {
            let order = order(generation, &[content]);
            let decision = decide(&records, epoch, &order, Some(&pod()));
            match decision {
                Decision::Write => {
                    prop_assert!(epoch >= highest);
                    prop_assert!(newest.is_none_or(|(known, _)| generation > known));
                    newest = Some((generation, content));
                    records.set(place(), record(generation, &[content]));
                }
                Decision::AlreadyThere => prop_assert_eq!(newest, Some((generation, content))),
                Decision::Refuse(_) => {}
            }
            records.saw(epoch);
            highest = highest.max(epoch);
        }
    }

    #[test]
    fn an_accepted_name_is_one_safe_component(
        pod_uid in "[0-9a-f./-]{0,40}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        volume in "\\PC{0,70}|[a-z0-9./-]{1,8}",
        file in "\\PC{0,140}|[A-Za-z./_~\0-]{1,8}",
    ) {
        let place = Place { pod_uid, volume, file };
        for good in [
            Place { ..place.clone() },
            Place { pod_uid: UID.into(), ..place.clone() },
            Place { pod_uid: UID.into(), volume: "v".into(), ..place.clone() },
        ] {
            if check_place(&good).is_err() {
                continue;
            }
            for name in [&good.pod_uid, &good.volume, &good.file] {
                let parts: Vec<_> = Path::new(name).components().collect();
                prop_assert!(matches!(parts[..], [std::path::Component::Normal(part)] if part == name.as_str()));
                prop_assert!(name.len() <= 128 && !name.contains('\0') && !name.starts_with('.'));
            }
        }
    }

    #[test]
    fn records_of_any_bytes_are_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _read = parse(&text);
    }

    #[test]
    fn blobs_of_any_bytes_are_unpacked_or_refused(
        noise in proptest::collection::vec(any::<u8>(), 0..200),
        at in 0usize..400,
        with in any::<u8>(),
    ) {
        let content = b"{\"status\":\"completed\"}".repeat(50);
        let digest = Digest::of(&content);
        let mut packed = pack(&content);
        let at = at % packed.len();
        packed[at] = with;
        // Also what somebody has sealed that is no frame, or a damaged one.
        let sealed = [sealed(&digest, &noise), sealed(&digest, &packed[SEAL..])];
        for blob in &sealed {
            let mut unpacked = Vec::new();
            let _any = unpack(blob, digest, &mut unpacked);
            prop_assert!(unpacked.len() as u64 <= LARGEST_TABLE);
        }
        for blob in [&noise, &packed] {
            let mut unpacked = Vec::new();
            if let Ok(bytes) = unpack(blob, digest, &mut unpacked) {
                prop_assert_eq!(bytes, content.len() as u64);
                prop_assert_eq!(&unpacked, &content);
            }
            prop_assert!(unpacked.len() as u64 <= LARGEST_TABLE);
        }
    }
}
