//! What every pure crate needs of Kubernetes, each once. Pure: no clock, no I/O, no client.
//!
//! ```text
//!   1500m  2Gi  1e3 ──▶ Quantity        1h30m ──▶ duration         a/b?c ──▶ NameError
//!   team-a/train    ──▶ ObjectKey       spec.x: Invalid value ──▶ FieldError
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`quantity`] | amounts of resources, read and printed as Kubernetes does |
//! | [`duration`] | durations in Go's syntax |
//! | [`name`] | validated names and namespaces: the only way from outside into a request's path |
//! | [`key`] | namespace and name of an object |
//! | [`field_error`] | what is wrong with a field, in Kubernetes' words |
//! | [`condition`] | one condition of a status |
//! | [`names`] | labels and annotations that several workloads share |
//! | [`rank_group`] | labels and annotations that make pods a rank group |

pub mod condition;
pub mod duration;
pub mod field_error;
pub mod key;
pub mod name;
pub mod names;
pub mod quantity;
pub mod rank_group;

pub use condition::Condition;
pub use field_error::{BadValue, FieldError, FieldErrorKind};
pub use key::ObjectKey;
pub use name::{Name, NameError, Namespace};
pub use quantity::Quantity;
