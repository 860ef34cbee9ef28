//! Why it cannot be said which pods share a table.

/// An annotation says something that is not known.
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
}

// === impl RanktableError ===

impl RanktableError {
    /// The reason of a condition, and the label of a metric.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Level { .. } => "InvalidLevel",
            Self::Scope { .. } => "InvalidScope",
        }
    }

    /// The annotation and what it says.
    pub fn annotation(&self) -> (&'static str, &str) {
        match self {
            Self::Level { key, value, .. } | Self::Scope { key, value, .. } => (key, value),
        }
    }

    /// What helps.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Level { .. } => "use role or group, or drop it for the level of the template",
            Self::Scope { .. } => "use role-instance or role-name, or drop it for role-instance",
        }
    }
}
