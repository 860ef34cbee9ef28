//! Ascend's management library.
