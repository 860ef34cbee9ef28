//! A template: parsed once, executed many times.

use crate::code::Program;
use crate::error::{Class, Error};
use crate::eval::{self, MissingKey, Setting};
use crate::funcs::Functions;
use crate::limits::Limits;
use crate::output::Output;
use crate::parse;
use crate::quote::quoted;
use crate::unicode;
use crate::value::Data;

/// A parsed template and the ones that it defines. It can be shared between threads.
#[derive(Debug)]
pub struct Template {
    name: String,
    source: String,
    limits: Limits,
    missing_key: MissingKey,
    program: Program,
}

// === impl Template ===

impl Template {
    /// Parses a source with the default limits.
    pub fn parse(name: &str, source: &str, functions: &Functions) -> Result<Self, Error> {
        Self::parse_within(name, source, functions, Limits::default())
    }

    /// Parses a source with these limits, which also bound its executions.
    pub fn parse_within(
        name: &str,
        source: &str,
        functions: &Functions,
        limits: Limits,
    ) -> Result<Self, Error> {
        let program = parse::parse(name, source, functions, &limits)?;
        let (name, source) = (name.to_owned(), source.to_owned());
        Ok(Self { name, source, limits, missing_key: MissingKey::default(), program })
    }

    /// Says what a missing key means.
    #[must_use]
    pub fn missing_key(mut self, missing_key: MissingKey) -> Self {
        self.missing_key = missing_key;
        self
    }

    /// The name that it was parsed under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of all templates in it, in the order of their definition.
    pub fn definitions(&self) -> impl Iterator<Item = &str> {
        self.program.bodies.iter().map(|body| body.name.as_str())
    }

    /// The output as text; bytes that are no UTF-8 become U+FFFD. Nothing but the error if there is one.
    pub fn render(&self, data: &(impl Data + ?Sized)) -> Result<String, Error> {
        let mut bytes = Vec::with_capacity(self.source.len());
        self.execute(data, &mut bytes)?;
        Ok(unicode::to_text(bytes))
    }

    /// Appends the output. After an error the buffer ends with what was written before it.
    pub fn execute(&self, data: &(impl Data + ?Sized), out: &mut Vec<u8>) -> Result<(), Error> {
        self.execute_body(self.program.main, data, out)
    }

    /// Like [`Template::execute`], for one of the templates that are defined in it.
    pub fn execute_definition(
        &self,
        name: &str,
        data: &(impl Data + ?Sized),
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let Some(body) = self.program.bodies.iter().rposition(|body| body.name == name) else {
            let (defined, own) = (quoted(name), quoted(&self.name));
            return Err(Error {
                class: Class::Exec,
                template: self.name.clone(),
                line: 1,
                column: 0,
                executing: name.to_owned(),
                expression: String::new(),
                message: format!("no template {defined} associated with template {own}"),
            });
        };
        self.execute_body(body, data, out)
    }

    fn execute_body(
        &self,
        body: usize,
        data: &(impl Data + ?Sized),
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let setting = Setting {
            program: &self.program,
            name: &self.name,
            source: &self.source,
            limits: &self.limits,
            missing_key: self.missing_key,
        };
        let output = Output::continuing(std::mem::take(out), self.limits.output);
        let (output, result) = eval::run(&setting, body, data.value(), output);
        *out = output.into_bytes();
        result
    }
}

#[cfg(test)]
mod tests;
