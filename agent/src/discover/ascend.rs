//! Ascend devices.
