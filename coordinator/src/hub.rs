//! The hub: one stream per agent.
