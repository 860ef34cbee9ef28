//! What is remembered.

use super::*;

#[test]
fn records_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = RecordsFile::new(folder.path().join("state"));
    assert_eq!(file.load(), (Records::default(), None));
    let mut records = Records::default();
    records.saw(9);
    records.set(place(), record(4, b"four"));
    file.save(&records, true).unwrap();
    assert_eq!(file.load(), (records.clone(), None));
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&file.path()), mode(file.path().parent().unwrap())), (0o600, 0o700));
    assert!(records.prune(&BTreeSet::new()));
    file.save(&records, true).unwrap();
    assert_eq!((file.load().0.delivered(), file.load().0.epoch()), (vec![], 9));
    assert_eq!(names_in(file.path().parent().unwrap()), ["delivered.json"]);
}

#[test]
fn changes_follow_the_records_and_one_that_was_cut_short_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = RecordsFile::new(folder.path().join("state"));
    let other = Place { file: "other.json".into(), ..place() };
    let mut records = Records::default();
    records.saw(3);
    let inode = |file: &RecordsFile| fs::metadata(file.path()).unwrap().ino();
    // Nothing is there yet, so all is written.
    records.set(place(), record(1, b"one"));
    file.change(&records, &place()).unwrap();
    assert_eq!(file.load(), (records.clone(), None));
    let first = inode(&file);
    for generation in 2..100 {
        records.set(place(), record(generation, b"more"));
        file.change(&records, &place()).unwrap();
        records.set(other.clone(), record(generation, b"other"));
        file.change(&records, &other).unwrap();
        assert_eq!(file.load(), (records.clone(), None));
    }
    records.forget(&other);
    file.change(&records, &other).unwrap();
    assert_eq!((file.load(), inode(&file)), ((records.clone(), None), first));
    // Whatever is left of the last change, what was before it is read.
    let text = fs::read(file.path()).unwrap();
    let last = text[..text.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    records.set(other.clone(), record(99, b"other"));
    for end in last..text.len() {
        assert_eq!(parse(&text[..end]), Ok(records.clone()), "{end}");
    }
    // A line with an end was written whole.
    assert!(parse(&[text.as_slice(), b"{}\n"].concat()).is_err());
}

#[test]
fn records_are_written_anew_when_changes_are_many_or_the_file_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = RecordsFile::new(folder.path().join("state"));
    let mut records = Records::default();
    let mut largest = 0;
    for generation in 0..2000 {
        records.set(place(), record(generation, b"x"));
        file.change(&records, &place()).unwrap();
        largest = largest.max(fs::metadata(file.path()).unwrap().len());
    }
    assert!((100_000..200_000).contains(&largest), "{largest}");
    assert_eq!(file.load(), (records.clone(), None));
    fs::remove_dir_all(folder.path().join("state")).unwrap();
    records.set(place(), record(2000, b"y"));
    file.change(&records, &place()).unwrap();
    assert_eq!(file.load(), (records, None));
}

#[test]
fn records_that_cannot_be_read_are_a_problem_and_begin_empty() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = RecordsFile::new(folder.path());
    let mut records = Records::default();
    let evil = Place { file: "../../x".into(), ..place() };
    records.set(evil, record(1, b""));
    file.save(&records, true).unwrap();
    let reason = |file: &RecordsFile| {
        let (records, finding) = file.load();
        assert_eq!(records, Records::default());
        finding.unwrap().reason
    };
    assert_eq!(reason(&file), "records-corrupt");
    for (text, wanted) in [
        (b"{".to_vec(), "records-corrupt"),
        (Vec::new(), "records-corrupt"),
        (br#"{"version":2,"epoch":1,"tables":[]}"#.to_vec(), "records-corrupt"),
        (vec![b' '; 5 << 20], "records-too-large"),
    ] {
        fs::write(file.path(), text).unwrap();
        assert_eq!(reason(&file), wanted);
    }
    fs::remove_file(file.path()).unwrap();
    nix::unistd::mkfifo(&file.path(), Mode::S_IRWXU).unwrap();
    assert_eq!(reason(&file), "records-unreadable");
}
