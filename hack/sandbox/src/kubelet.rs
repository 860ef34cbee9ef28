//! stub
pub mod checkpoint;
pub mod devices;
pub mod lifecycle;
pub mod logs;
pub mod names;
pub mod podresources;
pub mod volumes;
