use std::fs;
use std::os::unix::fs::symlink;
use std::thread;

use proptest::prelude::*;

use super::table::{NotYet, PRINTED, TableState, check, read};
use super::*;

const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));
const DONE: &str = r#"{"version":"1.0","status":"completed","server_list":[]}"#;

/// Tells when waiting has begun to sleep: by then it said what it waits for.
struct Log<'a> {
    text: Vec<u8>,
    on_line: &'a mut dyn FnMut(&str),
}

impl Write for Log<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.text).into_owned();
        (self.on_line)(text.lines().last().unwrap_or_default());
        Ok(())
    }
}

fn why(path: &Path) -> Option<NotYet> {
    match read(path).unwrap() {
        TableState::Complete(_) => None,
        TableState::NotYet(why) => Some(why),
    }
}

#[test]
fn a_table_that_is_there_is_printed_with_its_generation() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.json");
    fs::write(&file, DONE).unwrap();
    fs::write(folder.path().join("t.json.generation"), "7\n").unwrap();
    let mut out = Vec::new();
    wait(&file, None, &mut out).unwrap();
    let wanted =
        format!("{} is ready: generation 7, {} bytes\n{DONE}\n", file.display(), DONE.len());
    assert_eq!(String::from_utf8(out).unwrap(), wanted);
}

#[test]
fn a_large_table_is_printed_in_part() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.json");
    let text = format!("{{\"status\":\"completed\",\"x\":\"{}\"}}", "x".repeat(100_000));
    fs::write(&file, &text).unwrap();
    let mut out = Vec::new();
    wait(&file, None, &mut out).unwrap();
    let rest = text.len() as u64 - PRINTED;
    let out = String::from_utf8(out).unwrap();
    assert!(out.ends_with(&format!("\n… {rest} more bytes are not printed\n")));
    assert!(!out.contains("generation"));
}

#[test]
fn each_thing_that_is_missing_has_its_own_reason() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let table = [
        ("a.json", "", Some(NotYet::Empty)),
        ("b.json", r#"{"status":"initializing"}"#, Some(NotYet::Status("initializing".into()))),
        ("c.json", r#"{"status":1}"#, Some(NotYet::StatusType)),
        ("d.json", r#"{"status":null}"#, Some(NotYet::StatusType)),
        ("e.json", DONE, None),
        ("f.json", r#"{"other":{"status":"initializing"}}"#, None),
        ("g.json", "[1,2]", Some(NotYet::NoTable)),
        ("h.json", "7", Some(NotYet::NoTable)),
        ("l.json", "{}", Some(NotYet::NoTable)),
        ("m.json", "null", Some(NotYet::NoTable)),
        ("i.txt", "{", None),
        ("j.txt", "", Some(NotYet::Empty)),
    ];
    for (name, text, wanted) in table {
        fs::write(at(name), text).unwrap();
        assert_eq!(why(&at(name)), wanted, "{name} {text}");
    }
    for text in ["{\n  \"status\": \"comp", "{\"status\":\"completed\"} x", "\0"] {
        fs::write(at("k.json"), text).unwrap();
        let told = why(&at("k.json")).unwrap().to_string();
        assert!(told.starts_with("not JSON at line "), "{told}");
        assert_eq!(told.matches("line").count(), 1, "{told}");
    }
    assert_eq!(why(&at("none/none.json")), Some(NotYet::NoFile));
    assert_eq!(why(&at("a.json/x.json")), Some(NotYet::NoFile));
    assert_eq!(why(folder.path()), Some(NotYet::NotRegular));
    nix::unistd::mkfifo(&at("pipe.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(why(&at("pipe.json")), Some(NotYet::NotRegular));
    fs::File::create(at("huge.json")).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(why(&at("huge.json")), Some(NotYet::TooLarge(1 << 40)));
}

#[test]
fn waiting_ends_when_a_complete_table_is_renamed_into_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.json");
    let (temporary, place) = (folder.path().join(".t"), file.clone());
    let mut told = Vec::new();
    let mut on_line = |line: &str| {
        told.push(line.to_owned());
        let next = match line.rsplit(": ").next().unwrap_or_default() {
            "no file" => "",
            "the file is empty" => "{\"stat",
            line if line.starts_with("EOF") => r#"{"status":"initializing"}"#,
            line if line.contains("initializing") => DONE,
            _ => return,
        };
        let (temporary, place) = (temporary.clone(), place.clone());
        // From another thread: it may come before or after sleep begins.
        thread::spawn(move || {
            fs::write(&temporary, next).unwrap();
            fs::rename(temporary, place).unwrap();
        });
    };
    wait(&file, PATIENCE, &mut Log { text: Vec::new(), on_line: &mut on_line }).unwrap();
    assert_eq!(told.len(), 5, "{told:#?}");
}

#[test]
fn directories_may_come_later_and_go_again() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a/b/c");
    let file = deep.join("t.json");
    let (begin, begun) = std::sync::mpsc::channel();
    let worker = thread::spawn({
        let (folder, deep, file) = (folder.path().to_owned(), deep.clone(), file.clone());
        move || {
            begun.recv().unwrap();
            for _ in 0..20 {
                fs::create_dir_all(&deep).unwrap();
                fs::write(&file, "").unwrap();
                fs::remove_dir_all(folder.join("a")).unwrap();
            }
            fs::create_dir_all(&deep).unwrap();
            fs::write(&file, DONE).unwrap();
        }
    });
    let mut on_line = |_: &str| {
        let _told = begin.send(());
    };
    wait(&file, PATIENCE, &mut Log { text: Vec::new(), on_line: &mut on_line }).unwrap();
    worker.join().unwrap();
}

#[test]
fn a_config_map_volume_is_followed_through_its_links() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("..1")).unwrap();
    fs::create_dir(at("..2")).unwrap();
    fs::write(at("..1/t.json"), r#"{"status":"initializing"}"#).unwrap();
    fs::write(at("..2/t.json"), DONE).unwrap();
    symlink("..1", at("..data")).unwrap();
    symlink("..data/t.json", at("t.json")).unwrap();
    let mut on_line = |line: &str| {
        if line.contains("initializing") {
            symlink("..2", at("..data_tmp")).unwrap();
            fs::rename(at("..data_tmp"), at("..data")).unwrap();
        }
    };
    wait(&at("t.json"), PATIENCE, &mut Log { text: Vec::new(), on_line: &mut on_line }).unwrap();
}

#[test]
fn time_is_up_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.json");
    let error = wait(&file, Some(Duration::from_millis(30)), &mut io::sink()).unwrap_err();
    assert_eq!(error.reason(), "timed-out");
    assert!(error.to_string().ends_with(": no file"), "{error}");
    assert_eq!(error.code(), ExitCode::from(3));
    fs::write(&file, r#"{"status":"initializing"}"#).unwrap();
    let error = wait(&file, Some(Duration::ZERO), &mut io::sink()).unwrap_err();
    assert!(error.to_string().ends_with("its status is \"initializing\", not \"completed\""));
    let error = wait(Path::new("/"), None, &mut io::sink()).unwrap_err();
    assert_eq!((error.reason(), error.code()), ("no-name", ExitCode::from(2)));
}

#[test]
fn a_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.json");
    // Signals are taken by one thread; this one is only for that.
    let waiting = thread::spawn(move || {
        let signals = take_signals().unwrap();
        let mut on_line = |_: &str| nix::sys::signal::raise(Signal::SIGTERM).unwrap();
        let mut log = Log { text: Vec::new(), on_line: &mut on_line };
        wait_or_end(&file, PATIENCE, &mut log, Some(&signals))
    });
    let error = waiting.join().unwrap().unwrap_err();
    assert_eq!((error.reason(), error.code()), ("ended", ExitCode::from(143)));
    assert!(error.to_string().contains("signal 15"), "{error}");
}

#[test]
fn a_status_that_is_no_text_is_skipped_however_deep_it_is() {
    let deep = format!(r#"{{"status":{}1{},"x":0}}"#, "[".repeat(500), "]".repeat(500));
    let told = ["{\"status\":{\"status\":\"completed\"}}", "{\"status\":null}", &deep]
        .map(|text| check(text.as_bytes()).unwrap());
    assert_eq!(told, [const { Some(NotYet::StatusType) }; 3]);
    let cut = check(&deep.as_bytes()[..deep.len() / 2]).unwrap();
    assert!(matches!(cut, Some(NotYet::NotJson { .. })), "{cut:?}");
}

proptest! {
    #[test]
    fn any_bytes_are_complete_or_have_a_reason(
        noise in proptest::collection::vec(any::<u8>(), 0..200),
        at in 0..DONE.len(),
        with in any::<u8>(),
    ) {
        let _told = check(&noise[..]).unwrap();
        let mut mutated = DONE.as_bytes().to_vec();
        mutated[at] = with;
        let told = check(&mutated[..]).unwrap();
        if told.is_none() {
            // What is skipped is not checked to be UTF-8.
            let text = String::from_utf8_lossy(&mutated);
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
    }
}
