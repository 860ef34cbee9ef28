//! The annotation of each pod.
