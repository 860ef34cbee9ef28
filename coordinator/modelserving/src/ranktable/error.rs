//! Why it cannot be said which pods share a table.

use muster_ranktable::MOST_PODS;

/// An annotation says something that is not known, or a role is too large.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RanktableError {
    /// The level.
    #[error(
        "ModelServing {object}: annotation {key} is {value:?}; {}",
        self.remedy()
    )]
    Level {
        /// The ModelServing.
        object: String,
        /// The annotation.
        key: &'static str,
        /// What it says.
        value: String,
    },
    /// The scope of a role.
    #[error(
        "ModelServing {object}: annotation {key} is {value:?}; {}",
        self.remedy()
    )]
    Scope {
        /// The ModelServing.
        object: String,
        /// The annotation.
        key: &'static str,
        /// What it says.
        value: String,
    },
    /// Too many pods would share a table.
    #[error(
        "ModelServing {object}: {size} pods of role {role:?} would share a rank table, and {MOST_PODS} are the most; \
         its pods are not made: {}",
        self.remedy()
    )]
    Size {
        /// The ModelServing.
        object: String,
        /// The role.
        role: String,
        /// How many pods.
        size: u64,
    },
}

// === impl RanktableError ===

impl RanktableError {
    /// The reason of a condition, and the label of a metric.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Level { .. } => "InvalidLevel",
            Self::Scope { .. } => "InvalidScope",
            Self::Size { .. } => "GroupTooLarge",
        }
    }

    /// What helps.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Level { .. } => "use role or group, or drop it for the level of the template",
            Self::Scope { .. } => "use role-instance or role-name, or drop it for role-instance",
            Self::Size { .. } => {
                "lower its replicas, or let fewer pods share a table by level or scope"
            }
        }
    }
}
