//! Tables on their way into pods, and the program that waits for them.

use std::io::{self, Write};
use std::path::{Component, Path};

use muster_agent::deliver::unpack::{UnpackError, unpack as unpack_to};
use muster_agent::deliver::{check_place, records};
use muster_agent::wait::table::{NotYet, check};
use muster_program::duration;
use muster_proto::delivery::{Digest, Place, generation_file, seal};
use serde_json::Value;

/// Names of pods, volumes and files (three lines), and the file that remembers deliveries.
pub fn deliver(bytes: &[u8]) -> bool {
    let text = &*String::from_utf8_lossy(bytes);
    let mut found = false;
    if let [pod_uid, volume, file] = text.split('\n').collect::<Vec<_>>().as_slice() {
        let [pod_uid, volume, file] = [pod_uid, volume, file].map(|name| (*name).to_owned());
        let place = Place { pod_uid, volume, file };
        match check_place(&place) {
            Ok(()) => {
                found = true;
                leads_nowhere_else(&place);
            }
            Err(refusal) => assert!(refusal.to_string().len() < 2048),
        }
    }
    if let Ok(read) = records::parse(bytes) {
        found = true;
        assert!(read.iter().count() <= records::MOST);
        read.iter().for_each(|(place, _)| leads_nowhere_else(place));
        let printed = records::print(&read).expect("records");
        assert_eq!(records::parse(&printed), Ok(read), "printed and read again");
    }
    found
}

/// Each name is one plain component of a path, and so are the names beside it.
fn leads_nowhere_else(place: &Place) {
    let Place { pod_uid, volume, file } = place;
    for name in [pod_uid, volume, file, &generation_file(file)] {
        let mut parts = Path::new(name).components();
        assert!(matches!(parts.next(), Some(Component::Normal(one)) if one == name.as_str()));
        assert!(parts.next().is_none() && name.len() <= 255 && name.is_ascii());
        assert!(!name.starts_with('.') && !name.contains(char::is_control));
    }
}

/// Takes so much and then says that the disk is full.
struct Small(Vec<u8>);

impl Small {
    const MOST: usize = 1024 * 1024;
}

impl Write for Small {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > Self::MOST {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A packed table: bounded whatever it claims, and whole only under its own seal.
pub fn unpack(bytes: &[u8]) -> bool {
    let (name, other) = (Digest::of(b"a table"), Digest::of(b"another table"));
    let sealed = |bytes: &[u8]| [&seal(&name, bytes), bytes].concat();
    let to = || Small(Vec::new());
    assert!(unpack_to(bytes, name, &mut to()).is_err(), "nobody guesses a seal");
    assert!(matches!(
        unpack_to(&sealed(bytes), other, &mut to()),
        Err(UnpackError::DigestMismatch { .. })
    ));
    let mut out = to();
    match unpack_to(&sealed(bytes), name, &mut out) {
        Ok(size) => assert_eq!(size, out.0.len() as u64),
        Err(error) => {
            assert!(error.to_string().len() < 4096);
            return false;
        }
    }
    // What follows a frame, or is missing of it, is not taken.
    assert!(unpack_to(&sealed(&[bytes, b"\0"].concat()), name, &mut to()).is_err());
    let shorter = bytes.get(..bytes.len().saturating_sub(1)).unwrap_or_default();
    assert!(unpack_to(&sealed(shorter), name, &mut to()).is_err());
    true
}

/// A table in a file: complete or not yet, and never complete before its end. Also how long to wait for it.
pub fn wait(bytes: &[u8]) -> bool {
    let text = &*String::from_utf8_lossy(bytes);
    let duration = duration::parse(text);
    assert!(duration.is_ok() || duration.is_err_and(|error| !error.is_empty()));
    let seen = check(bytes).expect("memory can be read");
    if let Some(why) = &seen {
        assert!(why.to_string().len() < 4096);
    }
    let value = serde_json::from_slice::<Value>(bytes);
    if let Ok(value) = &value {
        let table = value.as_object().is_some_and(|table| !table.is_empty());
        match value.get("status") {
            _ if !table => assert_eq!(seen, Some(NotYet::NoTable)),
            None => assert_eq!(seen, None),
            Some(Value::String(status)) if status == "completed" => assert_eq!(seen, None),
            Some(Value::String(_)) => assert!(matches!(seen, Some(NotYet::Status(_)))),
            Some(_) => assert_eq!(seen, Some(NotYet::StatusType)),
        }
    }
    // One that is being written ends somewhere in the middle.
    let whole = bytes.trim_ascii();
    if seen.is_none() && matches!(whole.last(), Some(b'}' | b']' | b'"')) {
        for end in [whole.len() - 1, whole.len() / 2] {
            let cut = check(&whole[..end]).expect("memory can be read");
            assert!(cut.is_some(), "complete before its end");
        }
    }
    seen.is_none() || duration::parse(text.trim()).is_ok()
}
