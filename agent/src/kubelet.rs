//! What the kubelet knows.
