//! String formats that Kubernetes enforces; all others are ignored, as it ignores them.

use regex::Regex;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

/// An enforced format.
#[derive(Debug, Clone)]
pub struct Format {
    /// The name as the schema spells it, e.g. `date-time`.
    pub name: String,
    check: fn(&str) -> bool,
}

// === impl Format ===

impl Format {
    /// The format of that name, if it is one that is enforced.
    pub fn named(name: &str) -> Option<Format> {
        let check: fn(&str) -> bool = match name.replace('-', "").as_str() {
            "bsonobjectid" => |s| s.len() == 24 && s.bytes().all(|b| b.is_ascii_hexdigit()),
            "uri" => is_request_uri,
            "email" => is_email,
            "hostname" => is_hostname,
            "ipv4" => |s| s.contains('.') && sloppy_ip(s).is_some(),
            "ipv6" => |s| s.contains(':') && s.parse::<Ipv6Addr>().is_ok(),
            "cidr" => is_cidr,
            "mac" => is_mac,
            "uuid" => |s| UUID.is_match(s),
            "uuid3" => |s| UUID3.is_match(s),
            "uuid4" => |s| UUID4.is_match(s),
            "uuid5" => |s| UUID5.is_match(s),
            "isbn" => |s| is_isbn10(s) || is_isbn13(s),
            "isbn10" => is_isbn10,
            "isbn13" => is_isbn13,
            "creditcard" => is_credit_card,
            "ssn" => |s| SSN.is_match(s),
            "hexcolor" => |s| HEX_COLOR.is_match(s),
            "rgbcolor" => |s| RGB_COLOR.is_match(s),
            "byte" => |s| BASE64.is_match(s),
            "password" => |_| true,
            "date" => is_date,
            "duration" => is_duration,
            "datetime" => is_date_time,
            "k8sshortname" => |s| s.len() <= 63 && LABEL.is_match(s),
            "k8slongname" => |s| s.len() <= 253 && SUBDOMAIN.is_match(s),
            _ => return None,
        };
        Some(Format { name: name.to_owned(), check })
    }

    /// Whether the text has this format.
    pub fn holds(&self, text: &str) -> bool {
        (self.check)(text)
    }
}

macro_rules! patterns {
    ($($name:ident = $source:expr;)*) => {
        $(static $name: LazyLock<Regex> = LazyLock::new(|| pattern($source));)*
    };
}

patterns! {
    UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID3 = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID4 = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    UUID5 = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    SSN = r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$";
    HEX_COLOR = r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
    RGB_COLOR = r"^rgb\(\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*\)$";
    BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$";
    LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
    SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
    HOSTNAME = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
    CREDIT_CARD = r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14})$";
    CLOCK = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    SCALA_DURATION = r"(([0-9]+)\s*([A-Za-zµ]+))";
}

/// The sources are constants that a test compiles; a regex that never matches stands for a broken one.
fn pattern(source: &str) -> Regex {
    Regex::new(source).unwrap_or_else(|_| never())
}

#[allow(clippy::expect_used)] // a constant, covered by the test of this file
fn never() -> Regex {
    Regex::new("[^\\s\\S]").expect("the empty class is a valid pattern")
}

fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.chars().any(|c| c.is_ascii_control() || c == ' ') {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    // an absolute address: scheme, colon, something
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let mut letters = scheme.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        && rest.starts_with('/')
}

fn is_email(text: &str) -> bool {
    // `Name <user@host>` or `user@host`
    let address = match text.rsplit_once('<') {
        Some((_, inner)) => match inner.strip_suffix('>') {
            Some(inner) => inner,
            None => return false,
        },
        None => text.trim(),
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom = |s: &str| {
        !s.is_empty()
            && s.split('.').all(|part| {
                !part.is_empty()
                    && part.chars().all(|c| {
                        c.is_ascii_alphanumeric()
                            || "!#$%&'*+-/=?^_`{|}~".contains(c)
                            || !c.is_ascii()
                    })
            })
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    (atom(local) || quoted) && atom(domain)
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && HOSTNAME.is_match(text) && text.split('.').all(|label| label.len() <= 63)
}

/// An address as older Go read it: leading zeros are allowed in IPv4.
fn sloppy_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let significant = part.trim_start_matches('0');
        *octet = if significant.is_empty() { 0 } else { significant.parse().ok()? };
    }
    parts.next().is_none().then_some(IpAddr::V4(Ipv4Addr::from(octets)))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/') else { return false };
    let longest = match sloppy_ip(address) {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    prefix.bytes().all(|b| b.is_ascii_digit()) && prefix.parse::<u32>().is_ok_and(|p| p <= longest)
}

fn is_mac(text: &str) -> bool {
    let hex = |part: &str, digits: usize| {
        part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let groups = |separator: char, digits: usize, counts: [usize; 3]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len()) && parts.iter().all(|p| hex(p, digits))
    };
    groups(':', 2, [6, 8, 20]) || groups('-', 2, [6, 8, 20]) || groups('.', 4, [3, 4, 10])
}

fn digits_only(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != '-').collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = digits_only(text);
    if digits.len() != 10 || !digits.is_ascii() {
        return false;
    }
    let mut sum = 0;
    for (i, byte) in digits.bytes().enumerate() {
        let digit = match byte {
            b'0'..=b'9' => usize::from(byte - b'0'),
            b'X' if i == 9 => 10,
            _ => return false,
        };
        sum += (i + 1) * digit;
    }
    sum % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits = digits_only(text);
    if digits.len() != 13 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let sum: u32 = digits
        .bytes()
        .enumerate()
        .map(|(i, b)| u32::from(b - b'0') * if i % 2 == 0 { 1 } else { 3 })
        .sum();
    sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !CREDIT_CARD.is_match(&digits) {
        return false;
    }
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(i, b)| {
            let digit = u32::from(b - b'0');
            match (i % 2, digit * 2) {
                (0, _) => digit,
                (_, double) if double > 9 => double - 9,
                (_, double) => double,
            }
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 10
        && bytes
            .iter()
            .enumerate()
            .all(|(i, b)| if i == 4 || i == 7 { *b == b'-' } else { b.is_ascii_digit() })
        && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(clock)) = (parts.next(), parts.next()) else { return false };
    if !is_date(date) {
        return false;
    }
    CLOCK.captures(clock).is_some_and(|c| &c[1] <= "23" && &c[2] <= "59" && &c[3] <= "59")
}

fn is_duration(text: &str) -> bool {
    if muster_kube::duration::is_duration(text) {
        return true;
    }
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    SCALA_DURATION.captures_iter(text).any(|c| {
        let unit = c[3].trim().to_lowercase();
        c[2].parse::<i64>().is_ok()
            && UNITS.iter().any(|names| {
                names.contains(&unit.as_str())
                    || names.last().is_some_and(|last| unit.starts_with(last))
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_and_refuse_as_kubernetes_does() {
        // format, accepted, refused
        let table: &[(&str, &[&str], &[&str])] = &[
            (
                "date-time",
                &["2026-11-15T10:00:00Z", "2026-11-15t10:00:00.5+01:00"],
                &["2026-11-15", "2026-13-15T10:00:00Z", "2026-11-15T24:00:00Z", ""],
            ),
            ("date", &["2026-02-28"], &["2026-02-30", "26-02-03", "2026-2-3"]),
            ("duration", &["1h30m", "-1.5s", "0", "22 ns", "3 days"], &["", "1", "abc", "1x"]),
            ("byte", &["YWJj", "YQ=="], &["YQ", "?", ""]),
            (
                "uuid",
                &["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"],
                &["123e4567"],
            ),
            (
                "uuid3",
                &["123e4567-e89b-32d3-a456-426614174000"],
                &["123e4567-e89b-42d3-a456-426614174000"],
            ),
            (
                "uuid4",
                &["123e4567-e89b-42d3-a456-426614174000"],
                &["123e4567-e89b-12d3-a456-426614174000"],
            ),
            (
                "uuid5",
                &["123e4567-e89b-52d3-a456-426614174000"],
                &["123e4567-e89b-12d3-a456-426614174000"],
            ),
            ("ipv4", &["10.0.0.1", "010.0.0.1"], &["10.0.0", "::1", "10.0.0.256", "a.b.c.d"]),
            ("ipv6", &["::1", "fe80::1"], &["10.0.0.1", "g::1"]),
            ("cidr", &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33"]),
            ("mac", &["aa:bb:cc:dd:ee:ff", "aabb.ccdd.eeff"], &["aa:bb", "zz:bb:cc:dd:ee:ff"]),
            ("hostname", &["example.com", "a"], &["-a", "a_b", ""]),
            ("uri", &["https://example.com/a?b", "/path"], &["example.com", "", "a b"]),
            ("email", &["a@b.c", "Ann <a@b.c>"], &["a", "@b", "a@"]),
            ("isbn", &["0321751043", "978-0321751041"], &["0321751044"]),
            ("isbn10", &["0321751043"], &["978-0321751041"]),
            ("isbn13", &["978-0321751041"], &["0321751043"]),
            ("creditcard", &["4111 1111 1111 1111"], &["4111 1111 1111 1112"]),
            ("ssn", &["111-11-1111"], &["111-11-111"]),
            ("hexcolor", &["#ffffff", "abc"], &["#ffff"]),
            ("rgbcolor", &["rgb(255,0,1)"], &["rgb(256,0,1)"]),
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f1f77"]),
            ("password", &["x", ""], &[]),
            ("k8s-short-name", &["a-b"], &["A", "a.b", "-a"]),
            ("k8s-long-name", &["a.b-c"], &["A", "a..b"]),
        ];
        for (name, accepted, refused) in table {
            let format = Format::named(name).unwrap();
            for text in *accepted {
                assert!(format.holds(text), "{name} must accept {text:?}");
            }
            for text in *refused {
                assert!(!format.holds(text), "{name} must refuse {text:?}");
            }
        }
    }

    #[test]
    fn formats_of_numbers_and_unknown_formats_are_not_enforced() {
        for name in ["int32", "int64", "double", "float", "int-or-string", "quantity"] {
            assert!(Format::named(name).is_none(), "{name}");
        }
    }
}
