//! Fair share, quotas, limits and the order of queues.

pub mod division;
