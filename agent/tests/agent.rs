//! The agent's parts together, on an embedded cluster. One binary.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agent {
    mod pods;
}
