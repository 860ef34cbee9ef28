//! Tables into volumes.
