//! Which pods go when a job has ended.

/// Which pods go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanPodPolicy {
    /// Those that still run.
    Running,
    /// All, the coordinator too.
    All,
    /// No pods are deleted.
    None,
}

// === impl CleanPodPolicy ===

impl CleanPodPolicy {
    /// Reads it: nothing means `Running`, and the seed writes `ALL`.
    pub fn read(text: &str) -> Option<Self> {
        match text {
            "" | "Running" => Some(Self::Running),
            "All" | "ALL" => Some(Self::All),
            "None" => Some(Self::None),
            _ => None,
        }
    }

    /// The value as the spec writes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::All => "All",
            Self::None => "None",
        }
    }
}
