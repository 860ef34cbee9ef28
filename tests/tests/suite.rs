//! The tests of the whole system, in one binary.

mod suite {
    mod behaviour;
}
