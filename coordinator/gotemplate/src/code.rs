//! What a parsed template runs as.
//!
//! Control flow is jumps and expressions are a stack machine, so neither nested blocks nor called templates use
//! the program's own stack. Variables are slots of a frame, functions and templates are numbers.
//!
//! ```text
//!   {{range $i, $x := .list}}A{{else}}B{{end}}
//!
//!        Load .list
//!        Range  ──empty──▶ else
//!   body Text A
//!        Next   ──more───▶ body
//!        Jump   ─────────▶ end
//!   else Text B
//!   end  …
//! ```

use crate::funcs::{Function, Param};
use crate::tree::{NodeId, Tree};

/// An address in the code of a body.
pub(crate) type Address = u32;

/// The place of a variable in its frame.
pub(crate) type Slot = u32;

/// The node of an instruction that leaves the current node as it is.
pub(crate) const SAME: NodeId = NodeId::MAX;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Writes a part of the source.
    Text {
        start: u32,
        end: u32,
    },
    /// Pushes a literal.
    Constant {
        at: NodeId,
        index: u32,
    },
    /// Pushes nothing, as a value.
    Nil {
        at: NodeId,
    },
    /// Pushes what the names lead to.
    Load {
        at: NodeId,
        from: Source,
        names: Names,
    },
    /// Ends a command: the value forgets what held it.
    Unbox,
    /// The value in the slot becomes the top one; the top one stays.
    Store {
        slot: Slot,
    },
    /// Checks the type of the top value.
    Check {
        at: NodeId,
        param: Param,
    },
    /// Hides a top value that a list or map of anything holds, because `slice` takes no such index.
    Unheld,
    /// Moves the value below the arguments behind them.
    Rotate {
        count: u32,
    },
    /// Replaces the arguments by the result. `at` is what an error names, `after` what a later one may.
    Call {
        at: NodeId,
        after: NodeId,
        function: u32,
        count: u32,
    },
    /// Says what a later error names.
    Mark {
        at: NodeId,
    },
    /// Writes the result of a text function.
    Write {
        at: NodeId,
        function: u32,
        count: u32,
    },
    /// Ends `and` and `or` at this argument, or drops it.
    Decide {
        or: bool,
        piped: bool,
        last: bool,
        end: Address,
    },
    /// Writes the top value.
    Print,
    /// Drops the top value.
    Drop,
    Jump {
        to: Address,
    },
    /// Goes elsewhere unless the top value is true.
    Unless {
        to: Address,
    },
    /// Makes the top value the dot, or goes elsewhere.
    With {
        to: Address,
    },
    /// Forgets the innermost dot.
    Leave,
    /// Starts a loop over the top value, or goes elsewhere.
    Range {
        first: Option<Slot>,
        second: Option<Slot>,
        empty: Address,
    },
    /// Goes on with the loop, or ends it.
    Next {
        body: Address,
    },
    /// Ends the loop.
    Break {
        to: Address,
    },
    /// Refuses a template that was not defined or is called too deep.
    Enter {
        at: NodeId,
        call: u32,
    },
    /// Runs what the call names, with the top value as its dot.
    Template {
        call: u32,
    },
    /// Goes back to the caller.
    Return,
    /// Ends with an error.
    Fail {
        at: NodeId,
        message: u32,
    },
}

/// Where a field chain starts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Dot,
    Slot(Slot),
    /// The top value, which is replaced.
    Top,
}

/// Field names: a part of the template's table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) start: u32,
    pub(crate) count: u32,
    /// Whether the last name was given arguments, which only a method takes.
    pub(crate) called: bool,
    /// Whether the value ends a command and forgets what held it.
    pub(crate) unbox: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Constant {
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(f64, f64),
    Text(Vec<u8>),
}

/// The code of one definition.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) name: String,
    pub(crate) ops: Vec<Op>,
    /// How many variables its frame holds.
    pub(crate) slots: usize,
    /// Whether it has nothing but blanks.
    pub(crate) empty: bool,
}

/// All that was made from a source.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) tree: Tree,
    pub(crate) bodies: Vec<Body>,
    pub(crate) main: usize,
    pub(crate) names: Vec<Box<str>>,
    pub(crate) constants: Vec<Constant>,
    pub(crate) messages: Vec<String>,
    pub(crate) functions: Vec<Function>,
    /// The definition that each `template` names.
    pub(crate) calls: Vec<Call>,
}

/// A `template` action: its name, and its body once all are known.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) body: Option<usize>,
}
