//! Go's `text/template`: the language in which rank tables and annotation parsers are written.
//!
//! This crate decides what a template and its data give, byte for byte as Go's engine does. It never does I/O, reads
//! no clock and no environment, and keeps no state between executions. Templates come from users, so everything
//! is bounded: see [`Limits`].
//!
//! ```text
//!   source ──lex──▶ tokens ──parse──▶ tree ──compile──▶ code ──┐
//!                                                               ├──eval──▶ output, or an Error with its place
//!   typed data, JSON ────────value (views, no copies)───────────┘
//!                                  │
//!                    funcs: Go's own, quote/toJson/fromJson, text, lists, dicts, numbers, the caller's
//! ```
//!
//! ```
//! use gotemplate::{Functions, Numbers, Template, Value};
//!
//! let source = "{{range $i, $d := .devices}}{{if $i}}, {{end}}{{$d.id | quote}}{{else}}none{{end}}";
//! let template = Template::parse("devices", source, &Functions::core())?;
//!
//! let data = serde_json::json!({"devices": [{"id": "0"}, {"id": "1"}]});
//! assert_eq!(template.render(&Value::from_json(&data, Numbers::Floats))?, r#""0", "1""#);
//!
//! let wrong = template.render("not a map").unwrap_err();
//! assert_eq!(
//!     wrong.to_string(),
//!     r#"template: devices:1:18: executing "devices" at <.devices>: can't evaluate field devices in type string"#,
//! );
//! # Ok::<(), gotemplate::Error>(())
//! ```
//!
//! Typed data shows itself through [`Data`]; the [`structure!`] macro makes a Rust struct a Go struct, and nothing
//! is copied to render it.
//!
//! # Where it differs from Go
//!
//! - `slice` of a list is bounded by its length. Go allows its capacity, which no JSON decoder promises.
//! - Parentheses nest up to [`Limits::parentheses`] (200; Go: 10,000) and values up to [`Limits::nesting`] (1,000;
//!   Go's JSON: 10,000). Output, steps and work are bounded too. Templates call each other as deep as in Go.
//! - Maps have text keys; there are no methods, channels, pointers or function values, so `call` always fails.
//! - `%p` prints a fixed address. A variable that is declared inside an argument that `and` or `or` skips is there
//!   and has no value; in Go it is undefined.
//! - Of the functions beyond Go's own, `set` and `unset` do not change their argument: write
//!   `{{$d = set $d "k" 1}}`. `keys` and `values` are ordered. Integer results are `int`, not `int64`.
//!
//! Start reading at [`Template`], then `parse` and `eval`.

mod code;
mod error;
mod eval;
mod funcs;
mod lex;
mod limits;
mod number;
mod output;
mod parse;
mod print;
mod quote;
mod template;
mod tree;
mod unicode;
mod value;

pub use error::{Class, Error, FunctionError};
pub use eval::MissingKey;
pub use funcs::{Functions, Param};
pub use limits::{Budget, Limits};
pub use template::Template;
pub use value::{Data, List, Map, Mapping, Numbers, Sequence, Struct, Text, Value};
