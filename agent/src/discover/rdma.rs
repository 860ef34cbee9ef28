//! Network cards that can do RDMA.
