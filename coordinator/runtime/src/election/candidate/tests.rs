//! One rule, one row.

use super::*;

const LEASE: Duration = Duration::from_secs(3);

fn start() -> Instant {
    Instant::now()
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn wall() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn candidate(identity: &str) -> Candidate {
    let address = format!("https://{identity}:1");
    Candidate::new(&Settings { lease: LEASE, ..Settings::new("muster", identity, address) })
}

fn me() -> Me {
    candidate("me").me
}

fn held(holder: &str, epoch: u64) -> Record {
    Record {
        holder: Some(holder.into()),
        epoch: Some(epoch),
        duration: Some(LEASE),
        renewed: Some(wall()),
        ..Record::default()
    }
}

/// A Lease as it is stored: with a version.
fn stored(mut lease: Lease, version: &str) -> Lease {
    lease.metadata.resource_version = Some(version.to_owned());
    lease
}

fn other(epoch: u64, version: &str) -> Lease {
    let (identity, address) = ("other", "https://other:1");
    let claim = Claim { identity, address, epoch, lease: LEASE, wall: wall() };
    stored(claim.created("muster"), version)
}

/// Leads since `at`.
fn leader(at: Instant) -> Candidate {
    let mut candidate = candidate("me");
    candidate.found(None, at);
    let (lease, epoch) = candidate.draft(Step::Create, wall()).unwrap();
    candidate.wrote(stored(lease, "1"), epoch, at, at);
    assert_eq!(candidate.term().map(|term| term.until), Some(at + LEASE * 2 / 3));
    candidate
}

#[test]
fn the_table_of_decisions() {
    let since = start();
    let wait = |milliseconds| Step::Wait { until: since + ms(milliseconds) };
    let seen = Me { ever: true, ..me() };
    let term = Term { epoch: 7, until: since + ms(2_000), renew: since + ms(1_000) };
    let leads = Me { term: Some(term), ..seen.clone() };
    let lost = Me { tried: Some(7), ..seen.clone() };
    let ended = Me { ours_until: Some(since + ms(500)), ..seen.clone() };
    let long = Record { duration: Some(ms(10_000)), ..held("other", 7) };
    let endless = Record { duration: Some(Duration::MAX), ..held("other", 7) };
    let short = Record { duration: Some(Duration::ZERO), ..held("other", 7) };
    let vague = Record { duration: None, epoch: None, ..held("other", 7) };
    let wiped = Record { holder: None, ..held("other", 7) };
    let given_back = Record { epoch: Some(7), ..Record::default() };
    let table = [
        ("there was never one", None, &me(), 0, Step::Create),
        ("it was deleted: its leader may go on", None, &seen, 2_999, wait(3_000)),
        ("it was deleted long ago", None, &seen, 3_000, Step::Create),
        ("ours was deleted", None, &ended, 499, Step::Create),
        ("ours was deleted, but we have ended", None, &ended, 500, wait(3_000)),
        ("another leads", Some(&held("other", 7)), &seen, 2_999, wait(3_000)),
        ("another has gone silent", Some(&held("other", 7)), &seen, 3_000, Step::Take),
        ("another has more time", Some(&long), &seen, 9_999, wait(10_000)),
        ("another had more time", Some(&long), &seen, 10_000, Step::Take),
        ("nobody has time without end", Some(&endless), &seen, 0, wait(60_000)),
        ("a duration that was made short by hand", Some(&short), &seen, 0, wait(3_000)),
        ("fields are missing", Some(&vague), &seen, 0, wait(3_000)),
        ("fields were missing", Some(&vague), &seen, 3_000, Step::Take),
        ("only the holder was wiped by hand", Some(&wiped), &seen, 2_999, wait(3_000)),
        ("it was given back", Some(&given_back), &seen, 0, Step::Take),
        ("it is empty", Some(&Record::default()), &seen, 0, Step::Take),
        ("we lead", Some(&held("me", 7)), &leads, 999, wait(1_000)),
        ("we lead and must renew", Some(&held("me", 7)), &leads, 1_000, Step::Renew),
        ("our answer was lost", Some(&held("me", 7)), &lost, 0, Step::Take),
        ("somebody has our name", Some(&held("me", 8)), &lost, 0, wait(3_000)),
        ("somebody has our name and we never tried", Some(&held("me", 7)), &seen, 0, wait(3_000)),
    ];
    for (what, record, me, after, expected) in table {
        assert_eq!(decide(record, me, since, since + ms(after)), expected, "{what}");
    }
}

#[test]
fn a_leader_renews_and_its_fence_is_counted_from_before_the_request() {
    let at = start();
    let mut me = leader(at);
    assert_eq!(me.step(at), Step::Wait { until: at + ms(1_000) });
    assert_eq!(me.step(at + ms(1_000)), Step::Renew);
    let (lease, epoch) = me.draft(Step::Renew, wall()).unwrap();
    assert_eq!(me.limit(at + ms(1_000)), ms(500));
    assert_eq!(me.limit(at + ms(1_900)), ms(100));
    me.wrote(stored(lease, "2"), epoch, at + ms(1_000), at + ms(1_400));
    let term = me.term().unwrap();
    assert_eq!((term.epoch, term.until), (epoch, at + ms(3_000)));
}

#[test]
fn a_reign_that_has_ended_begins_anew_only_in_a_new_epoch() {
    let at = start();
    let mut me = leader(at);
    let first = me.term().unwrap().epoch;
    let (lease, epoch) = me.draft(Step::Renew, wall()).unwrap();
    me.wrote(stored(lease.clone(), "2"), epoch, at + ms(1_999), at + ms(2_000));
    assert_eq!(me.term(), None, "the answer came too late");
    assert_eq!(me.step(at + ms(2_100)), Step::Look);
    me.found(Some(stored(lease, "2")), at + ms(2_100));
    assert_eq!(me.step(at + ms(2_100)), Step::Take);
    let (_, second) = me.draft(Step::Take, wall()).unwrap();
    assert!(second > first);
}

#[test]
fn a_leader_that_hears_nothing_ends_by_itself() {
    let at = start();
    let mut me = leader(at);
    assert_eq!(me.step(at + ms(1_000)), Step::Renew);
    me.draft(Step::Renew, wall()).unwrap();
    me.failed(false, at + ms(1_000));
    assert_eq!(me.step(at + ms(1_100)), Step::Wait { until: at + ms(1_250) });
    assert_eq!(me.step(at + ms(1_250)), Step::Look);
    me.failed(false, at + ms(1_900));
    assert_eq!(me.step(at + ms(1_950)), Step::Wait { until: at + ms(2_000) });
    assert!(me.term().is_some());
    me.step(at + ms(2_000));
    assert_eq!(me.term(), None);
}

#[test]
fn a_leader_that_finds_another_in_its_place_stops_at_once() {
    let at = start();
    for found in [Some(other(2_000_000_000, "9")), Some(Lease::default()), None] {
        let mut me = leader(at);
        me.nudge(Some("9"));
        assert_eq!(me.step(at + ms(100)), Step::Look);
        me.found(found, at + ms(100));
        assert_eq!(me.term(), None);
    }
}

#[test]
fn a_leader_whose_lease_was_edited_by_hand_goes_on_and_puts_it_right() {
    let at = start();
    for epoch in ["0", "x", ""] {
        let mut me = leader(at);
        let mut edited = me.seen.as_ref().unwrap().lease.clone().unwrap();
        let annotations = edited.metadata.annotations.get_or_insert_default();
        annotations.insert(crate::names::LEADER_EPOCH.into(), epoch.into());
        me.found(Some(stored(edited, "5")), at + ms(100));
        let (lease, epoch) = me.draft(Step::Renew, wall()).unwrap();
        assert_eq!(Record::read(&lease).epoch, Some(epoch));
        assert_eq!(lease.metadata.resource_version.as_deref(), Some("5"));
    }
}

#[test]
fn epochs_grow_whatever_the_clock_shows() {
    let at = start();
    let years = [Timestamp::MIN, wall(), Timestamp::MAX];
    for clock in years {
        let mut me = candidate("me");
        me.found(Some(other(1_900_000_000, "1")), at);
        let (lease, epoch) = me.draft(Step::Take, clock).unwrap();
        assert!(epoch > 1_900_000_000);
        assert_eq!(Record::read(&lease).epoch, Some(epoch), "and can be believed");
        // Deleted: what we know is enough.
        me.wrote(stored(lease, "2"), epoch, at, at);
        me.found(None, at);
        assert!(me.draft(Step::Create, clock).unwrap().1 > epoch);
    }
    let mut me = candidate("me");
    me.found(None, at);
    assert_eq!(me.draft(Step::Create, wall()).unwrap().1, 1_800_000_000);
}

#[test]
fn changes_that_are_no_renewal_give_a_dead_leader_no_time() {
    let at = start();
    let mut me = candidate("me");
    for second in 0..3_u64 {
        let mut lease = other(7, &second.to_string());
        lease.metadata.labels = Some([("edited".to_owned(), second.to_string())].into());
        me.found(Some(lease), at + ms(1_000 * second));
    }
    me.found(Some(other(7, "9")), at + ms(2_999));
    assert_eq!(me.step(at + ms(3_000)), Step::Take);
    let (lease, _) = me.draft(Step::Take, wall()).unwrap();
    assert_eq!(lease.metadata.resource_version.as_deref(), Some("9"));
}

#[test]
fn a_standby_looks_now_and_then_and_when_it_is_told_but_not_all_the_time() {
    let at = start();
    let mut me = candidate("me");
    assert_eq!(me.step(at), Step::Look);
    me.found(Some(other(7, "1")), at);
    assert_eq!(me.leader(), Some("https://other:1"));
    assert_eq!(me.step(at), Step::Wait { until: at + ms(500) });
    me.nudge(Some("1"));
    assert_eq!(me.step(at), Step::Wait { until: at + ms(500) }, "it is known");
    me.nudge(Some("2"));
    assert_eq!(me.step(at), Step::Wait { until: at + ms(50) });
    assert_eq!(me.step(at + ms(50)), Step::Look);
    me.found(Some(other(7, "2")), at + ms(60));
    assert_eq!(me.step(at + ms(560)), Step::Look);
}

#[test]
fn conflicts_are_looked_into_at_once_but_not_without_end() {
    let at = start();
    let mut me = candidate("me");
    let free = stored(record::released(&other(7, "1")), "1");
    me.found(Some(free.clone()), at);
    me.draft(Step::Take, wall()).unwrap();
    me.failed(true, at);
    assert_eq!(me.step(at), Step::Look);
    me.found(Some(free), at);
    assert_eq!(me.step(at), Step::Take);
    me.draft(Step::Take, wall()).unwrap();
    me.failed(true, at);
    assert_eq!(me.step(at), Step::Wait { until: at + ms(250) });
}

#[test]
fn only_what_is_ours_is_given_back() {
    let at = start();
    let mut me = leader(at);
    let lease = me.release().unwrap();
    assert!(Record::read(&lease).is_free());
    assert_eq!(me.term(), None);
    me.found(Some(other(7, "3")), at);
    assert_eq!(me.release(), None);
}
