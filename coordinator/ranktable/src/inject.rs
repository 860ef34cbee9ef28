//! What a pod needs so that it waits for its table and finds it.
