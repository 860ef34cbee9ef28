//! What an endpoint does not write, and so cannot own.

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::fieldset::FieldSet;

/// The fields that a write through one endpoint leaves alone.
#[derive(Debug, Clone, Default)]
pub struct Reset(Option<Cow<'static, FieldSet>>);

/// A set that many writes share.
type Shared = LazyLock<FieldSet>;

static SPEC: Shared = LazyLock::new(|| FieldSet::of_fields(&[&["spec"]]));
static STATUS: Shared = LazyLock::new(|| FieldSet::of_fields(&[&["status"]]));
static POD_STATUS: Shared = LazyLock::new(|| {
    FieldSet::of_fields(&[
        &["spec"],
        &["metadata", "deletionTimestamp"],
        &["metadata", "ownerReferences"],
    ])
});

// === impl Reset ===

impl Reset {
    /// The endpoint writes everything.
    pub fn nothing() -> Self {
        Self(None)
    }

    /// The endpoint does not write these fields, nor what is below them.
    pub fn fields(paths: &[&[&str]]) -> Self {
        Self(Some(Cow::Owned(FieldSet::of_fields(paths))))
    }

    fn shared(set: &'static Shared) -> Self {
        Self(Some(Cow::Borrowed(set)))
    }

    /// What Kubernetes leaves alone for this kind on this endpoint (`""` for the main one).
    /// `has_status` says whether the kind has a status subresource.
    pub fn of(group: &str, kind: &str, subresource: &str, has_status: bool) -> Self {
        match (subresource, group, kind) {
            ("" | "scale" | "finalize", "certificates.k8s.io", "CertificateSigningRequest") => {
                Self::fields(&[&["spec"], &["status"]])
            }
            ("" | "scale" | "finalize", _, _) if has_status => Self::shared(&STATUS),
            ("status", "", "Pod") => Self::shared(&POD_STATUS),
            ("status", "apps", "Deployment") => Self::fields(&[&["spec"], &["metadata", "labels"]]),
            ("status", "certificates.k8s.io", "CertificateSigningRequest") => {
                Self::fields(&[&["spec"], &["status", "conditions"]])
            }
            ("approval", "certificates.k8s.io", "CertificateSigningRequest") => {
                Self::fields(&[&["spec"], &["status", "certificate"]])
            }
            (
                "status",
                "admissionregistration.k8s.io"
                | "apiextensions.k8s.io"
                | "flowcontrol.apiserver.k8s.io"
                | "storage.k8s.io",
                _,
            ) => Self::fields(&[&["spec"], &["metadata"]]),
            ("status", _, _) => Self::shared(&SPEC),
            _ => Self::nothing(),
        }
    }

    /// Takes these fields out of a set.
    pub fn filter(&self, set: &mut FieldSet) {
        if let Some(fields) = &self.0
            && !set.is_empty()
        {
            set.subtract_deep(fields);
        }
    }
}
