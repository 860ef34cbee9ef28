//! Names that become DNS labels.

use muster_kube::FieldError;

/// No label is longer.
pub(crate) const LONGEST: usize = 63;

const TOO_LONG: &str = "must be no more than 63 characters";
const DNS_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// Why a name is no DNS-1035 label, in Kubernetes' words; nothing if it is one.
pub(crate) fn dns_1035(name: &str) -> Vec<&'static str> {
    let mut why = Vec::new();
    if name.len() > LONGEST {
        why.push(TOO_LONG);
    }
    if !is_dns_1035(name) {
        why.push(DNS_1035);
    }
    why
}

/// What is wrong with the name of a role.
pub(crate) fn role(field: String, name: &str) -> Option<FieldError> {
    let why = dns_1035(name);
    (!why.is_empty()).then(|| {
        let why = format!(
            "role name must be a valid DNS-1035 label (lowercase alphanumeric characters or '-', must start with a letter): {}",
            why.join("; ")
        );
        FieldError::invalid(field, name, why).remedy("use a name such as prefill or decode-2")
    })
}

/// Letters, digits and dashes, without regard to length.
fn is_dns_1035(name: &str) -> bool {
    let (mut bytes, plain) = (name.bytes(), |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit());
    bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|byte| plain(byte) || byte == b'-')
        && name.bytes().last().is_some_and(plain)
}
