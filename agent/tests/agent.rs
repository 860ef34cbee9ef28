//! The agent's parts against files, sockets and APIs. One binary.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agent {
    mod deliver;
    mod laws;
    mod pods;
    mod program;
    mod wait;
}
