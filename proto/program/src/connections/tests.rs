use proptest::prelude::*;

use super::table::{Admitted, Table};
use super::*;

fn source(last: u8) -> Source {
    Source::of([10, 0, 0, last].into())
}

fn limits() -> ConnectionLimits {
    ConnectionLimits {
        most: 8,
        most_per_source: 4,
        handshake: Duration::from_secs(1),
        head: Duration::from_secs(2),
        body: Duration::from_secs(3),
        idle: Duration::from_secs(60),
        lasts: Duration::from_secs(300),
    }
}

#[test]
fn a_source_that_is_full_makes_room_among_its_own() {
    let mut table = Table::new(8, 2);
    let other = table.admit(source(1)).unwrap();
    let first = table.admit(source(2)).unwrap().id;
    let second = table.admit(source(2)).unwrap().id;
    assert_eq!(table.admit(source(2)).unwrap().closes, Some(first), "the oldest");
    table.set_working(second);
    let fourth = table.admit(source(2)).unwrap();
    assert!(fourth.closes.is_some_and(|id| id != second), "{fourth:?}: what works stays");
    table.set_working(fourth.id);
    assert_eq!(table.admit(source(2)), Err(Refused::Source), "all of them work");
    assert_eq!((other.closes, table.len()), (None, 3));
    table.set_idle(second);
    assert_eq!(table.admit(source(2)).unwrap().closes, Some(second), "it is answered");
}

#[test]
fn a_listener_that_is_full_takes_from_whoever_has_most() {
    let mut table = Table::new(8, 8);
    let few = table.admit(source(1)).unwrap().id;
    let many: Vec<_> = (0..7).map(|_| table.admit(source(2)).unwrap().id).collect();
    // However long the others knock.
    for expected in many {
        let Admitted { id, closes } = table.admit(source(2)).unwrap();
        assert_eq!(closes, Some(expected));
        table.remove(expected);
        assert_ne!(id, few);
    }
    for last in 3..60 {
        let closes = table.admit(source(last)).unwrap().closes.unwrap();
        assert!(last > 8 || closes != few, "{last}");
        table.remove(closes);
    }
}

#[test]
fn callers_that_say_nothing_do_not_push_out_one_that_is_idle_and_the_other_way_round() {
    let mut table = Table::new(8, 8);
    let idle = table.admit(source(1)).unwrap().id;
    table.set_working(idle);
    table.set_idle(idle);
    for last in 2..200 {
        let closes = table.admit(source(last)).unwrap().closes;
        assert_ne!(closes, Some(idle), "{last}");
        closes.into_iter().for_each(|id| table.remove(id));
    }
    let mut table = Table::new(8, 8);
    let silent = table.admit(source(1)).unwrap().id;
    for last in 2..200 {
        let Admitted { id, closes } = table.admit(source(last)).unwrap();
        table.set_working(id);
        table.set_idle(id);
        assert_ne!(closes, Some(silent), "{last}");
        closes.into_iter().for_each(|id| table.remove(id));
    }
}

#[test]
fn there_are_not_any_number_of_sockets_that_have_yet_to_close() {
    let mut table = Table::new(8, 8);
    let mut closing = Vec::new();
    let refused = loop {
        match table.admit(source(1)) {
            Ok(admitted) => closing.extend(admitted.closes),
            Err(refused) => break refused,
        }
        assert!(closing.len() < 100);
    };
    assert_eq!((refused, table.len()), (Refused::Listener, 8));
    table.remove(closing[0]);
    assert!(table.admit(source(1)).is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_has_to_close_is_told_and_counted() {
    let connections = Connections::new(limits());
    let own: Vec<_> = (0..4).map(|_| connections.admit(source(1)).unwrap()).collect();
    let _fifth = connections.admit(source(1)).unwrap();
    own[0].closed().await;
    assert!(!own[1].closer().is_cancelled());
    let working: Vec<_> = own[1..].iter().map(|open| open.connection().working()).collect();
    let sixth = connections.admit(source(1)).unwrap();
    let _works = sixth.connection().working();
    assert!(connections.admit(source(1)).is_none());
    let count = |reason| connections.closed().get_or_create(&CloseReason { reason }).get();
    assert_eq!((count("quiet"), count("source-full"), count("listener-full")), (2, 1, 0));
    drop((working, own));
    assert_eq!(connections.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_overdue_without_a_first_request_and_when_it_is_idle() {
    let connections = Connections::new(limits());
    let open = connections.admit(source(1)).unwrap();
    let began = Instant::now();
    open.overdue().await;
    assert_eq!(began.elapsed(), limits().head + limits().body);
    let working = open.connection().working();
    let (late, overdue) = (tokio::time::sleep(Duration::from_secs(3600)), open.overdue());
    tokio::select! {
        () = late => {}
        () = overdue => panic!("it works"),
    }
    drop(working);
    let began = Instant::now();
    open.overdue().await;
    assert_eq!(began.elapsed(), limits().idle);
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Admit(u8),
    Work(usize),
    Idle(usize),
    Close(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0u8..5).prop_map(Act::Admit),
        2 => (0usize..40).prop_map(Act::Work),
        2 => (0usize..40).prop_map(Act::Idle),
        1 => (0usize..40).prop_map(Act::Close),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_the_limits_hold_and_nothing_that_works_is_closed(
        acts in prop::collection::vec(act(), 0..200),
    ) {
        let mut table = Table::new(8, 3);
        // Source, and whether it works.
        let mut model: Vec<(Id, u8, bool)> = Vec::new();
        for act in acts {
            match act {
                Act::Admit(from) => {
                    let full = model.iter().filter(|one| one.1 == from).count() == 3;
                    match table.admit(source(from)) {
                        Ok(Admitted { id, closes }) => {
                            if let Some(closes) = closes {
                                let at = model.iter().position(|one| one.0 == closes).unwrap();
                                let (_, of, works) = model.remove(at);
                                prop_assert!(!works && (!full || of == from));
                                table.remove(closes);
                            }
                            model.push((id, from, false));
                        }
                        Err(refused) => {
                            let all = model.iter().filter(|one| !full || one.1 == from);
                            prop_assert!(all.clone().all(|one| one.2) && all.count() > 0);
                            let expected = if full { Refused::Source } else { Refused::Listener };
                            prop_assert_eq!(refused, expected);
                        }
                    }
                }
                Act::Work(at) | Act::Idle(at) if at < model.len() => {
                    let works = matches!(act, Act::Work(_));
                    model[at].2 = works;
                    if works { table.set_working(model[at].0) } else { table.set_idle(model[at].0) }
                }
                Act::Close(at) if at < model.len() => table.remove(model.remove(at).0),
                _ => {}
            }
            prop_assert!(model.len() <= 8 && table.len() == model.len());
            for from in 0..5 {
                prop_assert!(model.iter().filter(|one| one.1 == from).count() <= 3);
            }
        }
        for (id, ..) in model {
            table.remove(id);
        }
        prop_assert_eq!(table.len(), 0);
    }
}
