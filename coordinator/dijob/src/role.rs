//! What a pod is for.

/// What a pod is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Decides what is learned next; there is one.
    Coordinator,
    /// Plays.
    Collector,
    /// Learns, on at most one device.
    Learner,
    /// Stands for several DDP learners.
    Aggregator,
    /// Learns with others.
    DdpLearner,
}

// === impl Role ===

impl Role {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Coordinator, Self::Collector, Self::Learner, Self::Aggregator, Self::DdpLearner];

    /// Its word in labels and names.
    pub fn word(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Collector => "collector",
            Self::Learner => "learner",
            Self::Aggregator => "aggregator",
            Self::DdpLearner => "ddp-learner",
        }
    }

    /// The role of a word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.word() == word)
    }

    /// The port, if the container names none.
    pub fn port(self) -> u32 {
        match self {
            Self::Collector => 22270,
            Self::Learner | Self::DdpLearner => 22271,
            Self::Aggregator => 22272,
            Self::Coordinator => 22273,
        }
    }

    /// The variable that says the port.
    pub fn port_variable(self) -> &'static str {
        match self {
            Self::Coordinator => "COORDINATOR_PORT",
            Self::Collector => "COLLECTOR_PORT",
            Self::Learner | Self::DdpLearner => "LEARNER_PORT",
            Self::Aggregator => "AGGREGATOR_PORT",
        }
    }

    /// Its key in `status.replicaStatus`; DDP learners are not counted.
    pub fn counted(self) -> Option<&'static str> {
        match self {
            Self::Coordinator => Some("Coordinator"),
            Self::Collector => Some("Collector"),
            Self::Learner => Some("Learner"),
            Self::Aggregator => Some("Aggregator"),
            Self::DdpLearner => None,
        }
    }
}
