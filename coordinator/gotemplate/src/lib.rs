//! Go's `text/template`.

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

pub use error::{Class, Error, Fault};
pub use eval::MissingKey;
pub use funcs::{Functions, Param};
pub use limits::{Budget, Limits};
pub use template::Template;
pub use value::{Data, List, Map, Mapping, Numbers, Sequence, Struct, Text, Value};
