//! A request taken apart: which resource, which verb, which options. Pure.

use muster_objects::status::Status;

/// A path below `/api` or `/apis` that names a resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path {
    /// API group, empty for core.
    pub group: String,
    /// Version of the API, such as `v1`.
    pub version: String,
    /// Namespace, if the path has one.
    pub namespace: Option<String>,
    /// The plural of the resource.
    pub plural: String,
    /// Name of the object; none: the whole collection.
    pub name: Option<String>,
    /// Subresource, e.g. `status`.
    pub subresource: String,
}

/// The query parameters that the server understands. Others are ignored, as upstream does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// The label selector, as it was sent.
    pub labels: String,
    /// The field selector, as it was sent.
    pub fields: String,
    /// How many objects a page has.
    pub limit: usize,
    /// Where the page begins.
    pub continue_: String,
    /// The revision that the caller asks for.
    pub resource_version: String,
    /// How the revision is meant.
    pub resource_version_match: String,
    /// List or watch.
    pub watch: bool,
    /// Whether the watcher wants bookmarks.
    pub bookmarks: bool,
    /// Whether the watch begins with all objects.
    pub initial_events: Option<bool>,
    /// When the watch ends.
    pub timeout_seconds: Option<u64>,
    /// Whether `dryRun=All` was sent.
    pub dry_run: bool,
    /// The field manager.
    pub field_manager: String,
    /// Whether an apply takes fields over.
    pub force: Option<bool>,
    /// `Ignore`, `Warn` or `Strict`; empty is `Warn`.
    pub field_validation: String,
    /// What happens to dependents.
    pub propagation: Option<String>,
    /// Grace for a deletion.
    pub grace_seconds: Option<i64>,
    /// The older form of `propagation`.
    pub orphan_dependents: Option<bool>,
    /// For `pods/log`: the container.
    pub container: String,
    /// `pods/log`: stay and follow.
    pub follow: bool,
    /// `pods/log`: only the last lines.
    pub tail_lines: Option<usize>,
    /// `pods/log`: of the container's earlier life.
    pub previous: bool,
    /// `pods/log`: with times.
    pub timestamps: bool,
    /// Tables: with the whole object or its metadata.
    pub include_object: String,
}

// === impl Path ===

impl Path {
    /// Whether the path is of the old form `/api/v1/watch/…`; such a GET is always a watch.
    pub fn is_old_watch(path: &str) -> bool {
        let mut parts = path.split('/').filter(|p| !p.is_empty());
        match parts.next() {
            Some("api") => parts.nth(1) == Some("watch"),
            Some("apis") => parts.nth(2) == Some("watch"),
            _ => false,
        }
    }

    /// Takes `/api/v1/namespaces/a/pods/b/status` apart. `None`: not a path of a resource.
    pub fn parse(path: &str) -> Option<Self> {
        let mut parts = path.strip_prefix('/')?.split('/').filter(|p| !p.is_empty()).map(decode);
        let group = match parts.next()?.as_str() {
            "api" => String::new(),
            "apis" => parts.next()?,
            _ => return None,
        };
        let version = parts.next()?;
        let mut rest: Vec<String> = parts.collect();
        if Self::is_old_watch(path) {
            rest.remove(0);
        }
        let out = Self { group, version, ..Self::default() };
        let core_namespace =
            out.group.is_empty() && rest.first().is_some_and(|p| p == "namespaces");
        match &rest[..] {
            // A namespace itself, or one of its own subresources.
            [_] | [_, _] if core_namespace => Some(out.object(None, &rest)),
            [_, _, sub] if core_namespace && (sub == "status" || sub == "finalize") => {
                Some(out.object(None, &rest))
            }
            [first, namespace, object @ ..] if first == "namespaces" && !object.is_empty() => {
                Some(out.object(Some(namespace.clone()), object))
            }
            [] => None,
            object => Some(out.object(None, object)),
        }
    }

    fn object(mut self, namespace: Option<String>, rest: &[String]) -> Self {
        self.namespace = namespace;
        self.plural = rest.first().cloned().unwrap_or_default();
        self.name = rest.get(1).cloned();
        self.subresource = rest.get(2..).map(|sub| sub.join("/")).unwrap_or_default();
        self
    }
}

// === impl Query ===

impl Query {
    /// Reads the query string. Numbers and booleans that are none are refused.
    pub fn parse(query: &str) -> Result<Self, Status> {
        let mut out = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.into_owned();
            match &*key {
                "labelSelector" => out.labels = value,
                "fieldSelector" => out.fields = value,
                "limit" => out.limit = number(&key, &value)?.unwrap_or(0),
                "continue" => out.continue_ = value,
                "resourceVersion" => out.resource_version = value,
                "resourceVersionMatch" => out.resource_version_match = value,
                "watch" => out.watch = truth(&value),
                "allowWatchBookmarks" => out.bookmarks = truth(&value),
                "sendInitialEvents" => out.initial_events = Some(truth(&value)),
                "timeoutSeconds" => out.timeout_seconds = number(&key, &value)?,
                "dryRun" => out.dry_run = dry_run(&value)?,
                "fieldManager" => out.field_manager = value,
                "force" => out.force = Some(truth(&value)),
                "fieldValidation" => out.field_validation = value,
                "propagationPolicy" => out.propagation = Some(value),
                "gracePeriodSeconds" => out.grace_seconds = number(&key, &value)?,
                "orphanDependents" => out.orphan_dependents = Some(truth(&value)),
                "container" => out.container = value,
                "follow" => out.follow = truth(&value),
                "tailLines" => out.tail_lines = number(&key, &value)?,
                "previous" => out.previous = truth(&value),
                "timestamps" => out.timestamps = truth(&value),
                "includeObject" => out.include_object = value,
                _ => {}
            }
        }
        if !matches!(out.field_validation.as_str(), "" | "Ignore" | "Warn" | "Strict") {
            return Err(Status::invalid(
                "meta.k8s.io",
                "CreateOptions",
                "",
                &[unsupported(
                    "fieldValidation",
                    &out.field_validation,
                    &["", "Ignore", "Strict", "Warn"],
                )],
            ));
        }
        Ok(out)
    }
}

fn unsupported(field: &str, value: &str, supported: &[&str]) -> muster_kube::FieldError {
    use muster_kube::{FieldError, FieldErrorKind};
    let listed: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
    FieldError::with_value(
        FieldErrorKind::NotSupported,
        field,
        &serde_json::Value::from(value),
        format!("supported values: {}", listed.join(", ")),
    )
}

fn dry_run(value: &str) -> Result<bool, Status> {
    match value {
        "" => Ok(false),
        "All" => Ok(true),
        other => {
            let mut error = unsupported("dryRun", other, &["All"]);
            error.bad_value = muster_kube::BadValue::Printed(format!("[{other:?}]"));
            Err(Status::invalid("meta.k8s.io", "CreateOptions", "", &[error]))
        }
    }
}

/// As Go reads a query's booleans: anything but "false" and "0" is true.
fn truth(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "false" | "0")
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<Option<T>, Status> {
    if value.is_empty() {
        return Ok(None);
    }
    value.parse().map(Some).map_err(|_| {
        Status::bad_request(format!(
            "query parameter {key}: strconv.ParseInt: parsing {value:?}: invalid syntax"
        ))
    })
}

fn decode(part: &str) -> String {
    percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        // path, namespace, plural, name, subresource
        let table = [
            ("/api/v1/pods", None, "pods", None, ""),
            ("/api/v1/namespaces", None, "namespaces", None, ""),
            ("/api/v1/namespaces/a", None, "namespaces", Some("a"), ""),
            ("/api/v1/namespaces/a/status", None, "namespaces", Some("a"), "status"),
            ("/api/v1/namespaces/a/finalize", None, "namespaces", Some("a"), "finalize"),
            ("/api/v1/namespaces/a/pods", Some("a"), "pods", None, ""),
            ("/apis/batch/v1/namespaces/a/jobs/b/status", Some("a"), "jobs", Some("b"), "status"),
            ("/api/v1/nodes/n%2F1", None, "nodes", Some("n/1"), ""),
            ("/apis/x.dev/v1/namespaces", None, "namespaces", None, ""),
        ];
        for (path, namespace, plural, name, subresource) in table {
            let parsed = Path::parse(path).unwrap();
            assert_eq!(parsed.namespace.as_deref(), namespace, "{path}");
            assert_eq!(parsed.plural, plural, "{path}");
            assert_eq!(parsed.name.as_deref(), name, "{path}");
            assert_eq!(parsed.subresource, subresource, "{path}");
        }
        for path in ["/", "/healthz", "/api", "/api/v1", "/apis/batch", "/apis/batch/v1"] {
            assert_eq!(Path::parse(path), None, "{path}");
        }
    }

    #[test]
    fn a_number_that_is_none_is_refused() {
        assert_eq!(Query::parse("limit=x").unwrap_err().code, 400);
        assert_eq!(Query::parse("limit=5&watch=1").unwrap().limit, 5);
    }
}
