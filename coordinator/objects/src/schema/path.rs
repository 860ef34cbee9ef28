//! Paths of fields as Kubernetes writes them: `spec.items[0].name`, `spec.labels[app]`.

/// What an error without a field shows in place of one.
pub const NO_FIELD: &str = "<nil>";

/// Path of a field: `path.name`.
pub fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// `path[key]`, for the keys of maps.
pub fn key(path: &str, key: &str) -> String {
    format!("{path}[{key}]")
}

/// Path of an item: `path[0]`.
pub fn index(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

/// The path, or `<nil>` for the root.
pub fn shown(path: &str) -> String {
    if path.is_empty() { NO_FIELD.to_owned() } else { path.to_owned() }
}
