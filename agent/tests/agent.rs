//! The agent's parts together, on an embedded cluster.

mod agent {
    mod pods;
}
