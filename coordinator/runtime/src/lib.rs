//! What every controller runs on. A controller is an `impl` [`Reconciler`], run by [`controller::run`].
//!
//! ```text
//!   API server ──watch──▶ reflector ──change──▶ controller ──▶ work queue ──▶ Reconciler::reconcile
//!                              │                                               │ reads        │ writes
//!                              └────── objects ──▶ overlay of own writes ◀─────┘              ▼
//!                                                                      writer ──fence──▶ API server
//!   Lease ──▶ election ──▶ Leadership: who may write, and until when   recorder ──▶ events
//! ```
//!
//! Clock, randomness and tasks come from an [`environment::Environment`]. Start reading at [`reconciler`].

pub mod any_object;
pub mod backoff;
pub mod controller;
pub mod election;
pub mod environment;
pub mod events;
pub mod index;
pub mod locks;
pub mod metrics;
pub mod names;
pub mod overlay;
pub mod queue;
pub mod reconciler;
pub mod recorder;
pub mod reflector;
pub mod watch_source;
pub mod writer;

pub use environment::Environment;
pub use metrics::{ObjectMetrics, ReconcileMetrics};
pub use reconciler::{Context, ReconcileError, Reconciler, Requeue};
pub use recorder::EventRecorder;
pub use watch_source::{Wake, WatchSource};
