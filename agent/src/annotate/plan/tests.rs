use super::*;

fn pod(name: &str, uid: &str) -> PodRef {
    PodRef { namespace: "ns".into(), name: name.into(), uid: uid.into() }
}

fn table(server: &str) -> PodRanktable {
    PodRanktable {
        pod_name: "a".into(),
        server_id: server.into(),
        devices: Vec::new(),
        super_pod_id: None,
        server_index: None,
    }
}

fn pods(all: &[(PodRef, Option<&str>, bool)]) -> PodMap {
    let meta = |(pod, text, deleting): &(PodRef, Option<&str>, bool)| {
        let annotations = text.map(|text| (KEY.to_owned(), text.to_owned())).into_iter().collect();
        let meta = PodMeta { pod: pod.clone(), annotations, rank_group: None, deleting: *deleting };
        (meta.key(), meta)
    };
    all.iter().map(meta).collect()
}

fn refused(code: u16, seconds: u64) -> WriteOutcome {
    let retry_after = (seconds > 0).then(|| Duration::from_secs(seconds));
    WriteOutcome::Refused(ApiError { code, reason: "x", message: String::new(), retry_after })
}

#[test]
fn an_annotation_that_says_the_same_is_never_written() {
    let now = Instant::now();
    let a = pod("a", "1");
    let spaced = serde_json::to_string_pretty(&table("s")).unwrap();
    for text in [table("s").write(), spaced] {
        let mut plan = Plan::default();
        plan.set_desired(
            vec![(a.clone(), table("s"))],
            &pods(&[(a.clone(), Some(&text), false)]),
            now,
        );
        assert_eq!((plan.due(8, now), plan.next()), (vec![], None));
    }
}

#[test]
fn a_pod_that_goes_or_has_another_uid_is_never_written() {
    let now = Instant::now();
    let a = pod("a", "1");
    for there in
        [pods(&[(a.clone(), None, true)]), pods(&[(pod("a", "2"), None, false)]), pods(&[])]
    {
        let mut plan = Plan::default();
        plan.set_desired(vec![(a.clone(), table("s"))], &there, now);
        assert_eq!(plan.due(8, now), []);
    }
}

#[test]
fn what_was_written_is_not_written_again_while_the_watch_lags() {
    let now = Instant::now();
    let a = pod("a", "1");
    let mut plan = Plan::default();
    let before = pods(&[(a.clone(), None, false)]);
    plan.set_desired(vec![(a.clone(), table("s"))], &before, now);
    assert_eq!(plan.due(8, now), [Write { pod: a.clone(), text: table("s").write() }]);
    assert_eq!(plan.due(8, now), [], "it is under way");
    assert_eq!(plan.done(&a, &WriteOutcome::Applied, now), Some(now));
    plan.set_desired(vec![(a.clone(), table("s"))], &before, now);
    assert_eq!(plan.due(8, now), []);
    let text = table("s").write();
    let gone = plan.set_desired(
        vec![(a.clone(), table("s"))],
        &pods(&[(a.clone(), Some(&text), false)]),
        now,
    );
    assert_eq!((gone, plan.next()), (vec![a], None));
}

#[test]
fn somebody_elses_value_is_put_right() {
    let now = Instant::now();
    let a = pod("a", "1");
    let mut plan = Plan::default();
    plan.set_desired(vec![(a.clone(), table("s"))], &pods(&[(a.clone(), None, false)]), now);
    plan.due(8, now);
    plan.done(&a, &WriteOutcome::Applied, now);
    plan.set_desired(vec![(a.clone(), table("s"))], &pods(&[(a.clone(), Some("{}"), false)]), now);
    assert_eq!(plan.due(8, now).len(), 1);
}

#[test]
fn a_text_that_changes_while_it_is_written_is_written_again() {
    let now = Instant::now();
    let a = pod("a", "1");
    let there = pods(&[(a.clone(), None, false)]);
    let mut plan = Plan::default();
    plan.set_desired(vec![(a.clone(), table("s"))], &there, now);
    plan.due(8, now);
    plan.set_desired(vec![(a.clone(), table("t"))], &there, now);
    assert_eq!(plan.due(8, now), []);
    assert_eq!(plan.done(&a, &WriteOutcome::Applied, now), None);
    assert_eq!(plan.due(8, now), [Write { pod: a, text: table("t").write() }]);
}

#[test]
fn a_refused_write_comes_again_later_and_not_before_the_api_asked() {
    let now = Instant::now();
    let a = pod("a", "1");
    let there = pods(&[(a.clone(), None, false)]);
    for (outcome, least) in [
        (refused(409, 0), Duration::from_millis(150)),
        (refused(429, 7), Duration::from_secs(7)),
        (refused(403, 0), FORBIDDEN),
        (WriteOutcome::Late, Duration::from_millis(150)),
    ] {
        let mut plan = Plan::default();
        plan.set_desired(vec![(a.clone(), table("s"))], &there, now);
        plan.due(8, now);
        assert_eq!(plan.done(&a, &outcome, now), None);
        let next = plan.next().unwrap();
        assert!(next >= now + least, "{outcome:?}");
        assert_eq!(plan.due(8, now), []);
        assert_eq!(plan.due(8, next).len(), 1);
    }
}

#[test]
fn only_so_many_are_taken_and_none_is_forgotten() {
    let now = Instant::now();
    let all: Vec<PodRef> = (0..20).map(|number| pod(&format!("p{number:02}"), "u")).collect();
    let there: Vec<_> = all.iter().map(|pod| (pod.clone(), None, false)).collect();
    let mut plan = Plan::default();
    plan.set_desired(all.iter().map(|pod| (pod.clone(), table("s"))).collect(), &pods(&there), now);
    let taken: Vec<usize> = (0..4).map(|_| plan.due(8, now).len()).collect();
    assert_eq!(taken, [8, 8, 4, 0]);
}
