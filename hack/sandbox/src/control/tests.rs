//! The controllers against the API.
