//! Label and field selectors: parsing with Kubernetes' words for what is wrong, and matching.

mod field;
mod label;
mod name;
mod parser;
#[cfg(test)]
mod tests;

pub use field::FieldSelector;
pub use label::{LabelSelector, Operator, Requirement};
