//! The tests of the whole system, in one binary.

mod suite {
    mod access;
    mod admission;
    mod agent;
    mod behaviour;
    mod chart;
    mod clients;
    mod crash;
    mod defaults;
    mod delivery;
    mod deposed;
    mod dijob;
    mod docs;
    mod faults;
    mod flood;
    mod jobset;
    mod leaderless;
    mod leaderworkerset;
    mod logs;
    mod modelserving;
    mod placement;
    mod ranktable;
    mod restart;
    mod rights;
    mod scale;
    mod scheduling;
    mod servings;
    mod stability;
    mod status;
    mod thousand;
    mod trainjob;
    mod truth;
    mod typos;
    mod workload;
}
