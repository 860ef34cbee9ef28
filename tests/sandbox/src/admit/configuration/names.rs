//! Names that DNS would take, with the sentences that Kubernetes says when they are not.

use muster_kube::{FieldError, FieldErrorKind as Kind};
use serde_json::json;

use super::invalid;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// The name of a webhook: a domain of three parts or more.
pub(super) fn check_qualified(name: &str, at: &str, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::new(Kind::Required, at, ""));
    } else if let Some(why) = subdomain_error(name) {
        errors.push(invalid(at, &json!(name), why));
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(invalid(at, &json!(name), detail));
    }
}

/// Why the text is no DNS subdomain.
pub(super) fn subdomain_error(text: &str) -> Option<String> {
    if text.len() > 253 {
        return Some("must be no more than 253 characters".into());
    }
    (!text.split('.').all(is_label)).then(|| SUBDOMAIN.to_owned())
}

/// Why the text is no DNS-1035 label.
pub(super) fn label_1035_error(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some("must be no more than 63 characters".into());
    }
    let letter = text.starts_with(|c: char| c.is_ascii_lowercase());
    (!letter || !is_label(text)).then(|| LABEL_1035.to_owned())
}

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}
