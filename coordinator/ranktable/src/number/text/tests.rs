use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

fn numbering(entries: &[(&str, &str, u32)]) -> Numbering {
    let mut numbering = Numbering::default();
    for (server, device, rank) in entries {
        numbering.insert(server, device, *rank);
    }
    numbering
}

#[test]
fn consecutive_ranks_of_consecutive_devices_take_one_word() {
    let some = numbering(&[
        ("10.0.0.2", "5", 10),
        ("10.0.0.2", "1", 9),
        ("10.0.0.2", "0", 8),
        ("10.0.0.1", "0", 0),
        ("10.0.0.1", "10", 3),
        ("10.0.0.1", "9", 2),
        ("node c", "GPU-1f", 11),
        ("node c", "", 12),
    ]);
    let text = "ranks/1\n10.0.0.1 0=0 9+2=2\n10.0.0.2 0+2=8 5=10\nnode%20c %=12 GPU-1f=11\n";
    assert_eq!(some.write(), text);
    assert_eq!(Numbering::read(text), Ok(some));
    assert_eq!(Numbering::default().write(), "ranks/1\n");
    assert_eq!(Numbering::read("ranks/1\n"), Ok(Numbering::default()));
}

#[test]
fn a_hundred_thousand_ranks_are_written_in_less_than_a_config_map_holds() {
    let mut large = Numbering::default();
    for server in 0..12_500_u32 {
        for device in 0..8 {
            let id = format!("10.1.{}.{}", server >> 8, server & 255);
            large.insert(&id, &device.to_string(), server * 8 + device);
        }
    }
    let text = large.write();
    assert!(text.len() < 400_000, "{} bytes", text.len());
    assert_eq!(Numbering::read(&text), Ok(large));
}

#[test]
fn what_is_no_numbering_is_refused_with_its_line() {
    let line = |line, problem| Err(NumberingError::Line { line, problem });
    let device = "a device is no ID=RANK or ID+COUNT=RANK";
    for (text, expected) in [
        ("", Err(NumberingError::Version)),
        ("ranks/2\n", Err(NumberingError::Version)),
        ("ranks/1\n\n", line(2, "no server")),
        ("ranks/1\na", line(2, "the server has no devices")),
        ("ranks/1\na 0=0\na 1=1", line(3, "the server was there before")),
        ("ranks/1\na 0+2=0 1=5", line(2, "a device is there twice")),
        ("ranks/1\na  0=0", line(2, device)),
        ("ranks/1\na 0", line(2, device)),
        ("ranks/1\na 0=-1", line(2, device)),
        ("ranks/1\na 0=4294967296", line(2, device)),
        ("ranks/1\na 0+0=0", line(2, device)),
        ("ranks/1\na 4294967295+2=0", line(2, device)),
        ("ranks/1\na 0+2=4294967295", line(2, device)),
        ("ranks/1\na x+2=0", line(2, device)),
        ("ranks/1\na %f=0", line(2, device)),
        ("ranks/1\na %ff=0", line(2, device)),
        ("ranks/1\na 0+4294967295=0", Err(NumberingError::TooMany(2))),
    ] {
        assert_eq!(Numbering::read(text), expected, "{text:?}");
    }
    let long = " ".repeat(LARGEST + 1);
    assert_eq!(Numbering::read(&long).unwrap_err().reason(), "numbering-too-large");
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,3}",
        "[0-9]{1,2}",
        ".{0,6}",
        "[a-z0-9.+=% -]{0,8}",
        Just("4294967295".into())
    ]
}

proptest! {
    #[test]
    fn what_was_written_is_read_the_same(
        entries in btree_map(names(), btree_map(names(), prop_oneof![0..20_u32, any::<u32>()], 1..12), 0..6),
    ) {
        let mut some = Numbering::default();
        for (server, devices) in &entries {
            devices.iter().for_each(|(device, rank)| some.insert(server, device, *rank));
        }
        let text = some.write();
        prop_assert_eq!(Numbering::read(&text), Ok(some.clone()));
        // The order of insertion does not matter.
        let mut other = Numbering::default();
        for (server, devices) in entries.iter().rev() {
            devices.iter().rev().for_each(|(device, rank)| other.insert(server, device, *rank));
        }
        prop_assert_eq!(other.write(), text);
    }

    #[test]
    fn any_text_is_read_or_refused_and_what_is_read_has_one_text(
        lines in vec("[a-c%0-9]{0,3}( [0-9a%]{0,4}(\\+[0-9]{0,3})?=[0-9]{0,3}){0,3}", 0..4),
    ) {
        if let Ok(read) = Numbering::read(&format!("ranks/1\n{}", lines.join("\n"))) {
            let text = read.write();
            prop_assert_eq!(Numbering::read(&text).map(|read| read.write()), Ok(text));
        }
    }
}
