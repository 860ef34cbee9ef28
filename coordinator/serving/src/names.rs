//! Names that others rely on: annotations of webhook configurations, where certificates are kept.

/// The coordinator's own webhook configurations: it may change no others.
pub const CONFIGURATIONS: [&str; 3] =
    ["muster-coordinator", "muster-coordinator-dijob", "muster-coordinator-scheduler"];

/// Annotation of webhook configurations whose CA the coordinator fills in; its value is `true`.
pub const INJECT_CA: &str = "muster.dev/inject-ca";

/// Annotation of webhook configurations whose match conditions `ours` the coordinator writes, by its `--scheduler-name`s; its value is `true`.
pub const INJECT_SCHEDULER_NAMES: &str = "muster.dev/inject-scheduler-names";

/// Secret that holds the coordinator's certificates and keys.
pub const CERTS_SECRET: &str = "muster-coordinator-certs";

/// ConfigMap that tells agents which authorities to trust.
pub const CA_CONFIG_MAP: &str = "muster-coordinator-ca";
