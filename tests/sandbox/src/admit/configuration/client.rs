//! `clientConfig`: a URL or a Service.

use http::Uri;
use muster_kube::{FieldError, FieldErrorKind as Kind};
use serde_json::{Value, json};

use super::{invalid, names, text};

const FORM: &str = "; desired format: https://host[/path]";

pub(super) fn check(config: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match (config["url"].as_str(), &config["service"]) {
        (Some(url), Value::Null) => check_url(url, &format!("{at}.url"), errors),
        (None, service @ Value::Object(_)) => {
            check_service(service, &format!("{at}.service"), errors);
        }
        _ => {
            let detail = "exactly one of url or service is required";
            errors.push(FieldError::new(Kind::Required, at, detail));
        }
    }
}

fn check_url(url: &str, at: &str, errors: &mut Vec<FieldError>) {
    let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
    let uri: Uri = match url.parse() {
        Ok(uri) => uri,
        Err(error) => {
            let detail = format!("url must be a valid URL: parse {url:?}: {error}{FORM}");
            errors.push(FieldError::new(Kind::Required, at, detail));
            return;
        }
    };
    let scheme = uri.scheme_str().unwrap_or_default();
    if scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(invalid(at, &json!(scheme), detail));
    }
    let authority = uri.authority().map(|a| a.as_str()).filter(|_| !scheme.is_empty());
    let authority = authority.unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.is_empty() {
        errors.push(invalid(at, &json!(host), format!("host must be specified{FORM}")));
    }
    if !user.is_empty() {
        let detail = "user information is not permitted in the URL";
        errors.push(invalid(at, &json!(user), detail));
    }
    if !fragment.is_empty() {
        let detail = "fragments are not permitted in the URL";
        errors.push(invalid(at, &json!(fragment), detail));
    }
    if let Some(query) = uri.query().filter(|query| !query.is_empty()) {
        let detail = "query parameters are not permitted in the URL";
        errors.push(invalid(at, &json!(query), detail));
    }
}

fn check_service(service: &Value, at: &str, errors: &mut Vec<FieldError>) {
    // Kubernetes hands the two over in the wrong order, so that each stands at the other's field.
    for (field, given) in [("name", "namespace"), ("namespace", "name")] {
        if text(service, given).is_empty() {
            errors.push(FieldError::new(Kind::Required, format!("{at}.{field}"), ""));
        }
    }
    let port = service["port"].as_i64().unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(invalid(format!("{at}.port"), &json!(port), detail));
    }
    let path = text(service, "path");
    let at = format!("{at}.path");
    let mut wrong = |detail: String| errors.push(invalid(at.as_str(), &json!(path), detail));
    match path {
        "" | "/" => return,
        "//" => return wrong("segment[0] may not be empty".into()),
        _ => {}
    }
    if !path.starts_with('/') {
        wrong("must start with a '/'".into());
    }
    let steps = path.get(1..).unwrap_or_default();
    let steps = steps.strip_suffix('/').unwrap_or(steps);
    for (place, step) in steps.split('/').enumerate() {
        if step.is_empty() {
            wrong(format!("segment[{place}] may not be empty"));
        } else if let Some(why) = names::subdomain_error(step) {
            wrong(format!("segment[{place}]: {why}"));
        }
    }
}
