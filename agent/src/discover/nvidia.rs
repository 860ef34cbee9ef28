//! NVIDIA devices.
