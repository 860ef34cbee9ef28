//! Texts of a PCI function's files. Pure.

use muster_proto::device::Malformed;

/// How long a list of cores may be.
const CPUS: usize = 1024;

/// A vendor's or device's id as sysfs prints it: `0x10de`.
pub fn id(text: &str) -> Result<u16, Malformed> {
    hex(text, 4).and_then(|value| u16::try_from(value).ok()).ok_or(Malformed::new("PCI id", text))
}

/// A device class as sysfs prints it: `0x030200`.
pub fn class(text: &str) -> Result<u32, Malformed> {
    hex(text, 6).ok_or(Malformed::new("PCI class", text))
}

fn hex(text: &str, most: usize) -> Option<u32> {
    let digits = text.trim().strip_prefix("0x")?;
    let fits = digits.len() <= most && digits.bytes().all(|b| b.is_ascii_hexdigit());
    fits.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

/// `1`; `-1` is a machine that does not tell.
pub fn numa(text: &str) -> Option<u32> {
    text.trim().parse().ok()
}

/// `0-55,112-167`, as it is.
pub fn cpus(text: &str) -> Option<String> {
    let text = text.trim();
    let listed = text.bytes().all(|b| b.is_ascii_digit() || b == b',' || b == b'-');
    (listed && (1..=CPUS).contains(&text.len())).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn good_and_bad_texts() {
        assert_eq!(id("0x10de\n"), Ok(0x10de));
        assert_eq!(class("0x030200"), Ok(0x03_0200));
        for text in ["", "0x", "10de", "0x10de0", "0x-1", "0x+1", "0xzz"] {
            assert!(id(text).is_err(), "{text}");
        }
        assert_eq!([numa("1\n"), numa("-1"), numa("")], [Some(1), None, None]);
        assert_eq!(cpus(" 0-3,8\n").as_deref(), Some("0-3,8"));
        assert_eq!(
            [cpus(""), cpus("0-\u{1b}[7m"), cpus(&"1".repeat(CPUS + 1))],
            [None, None, None]
        );
    }

    proptest! {
        #[test]
        fn no_text_breaks_them(text in ".{0,40}") {
            let _ = (id(&text), numa(&text));
            prop_assert!(class(&text).is_ok_and(|class| class <= 0xff_ffff) || class(&text).is_err());
            prop_assert!(cpus(&text).is_none_or(|cpus| cpus.len() <= CPUS && cpus.is_ascii()));
        }
    }
}
