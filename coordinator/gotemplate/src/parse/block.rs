//! Blocks: what opens, branches and closes them.

use super::{Draft, Parsed, Parser};
use crate::code::{Address, Call, Op, Slot};
use crate::lex::{Keyword, Kind};
use crate::tree::{NodeId, NodeKind};

/// What a block does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control {
    If,
    With,
    Range,
}

/// A block that is open.
#[derive(Debug)]
pub(super) struct Block {
    control: Control,
    /// The instruction that goes to the other branch, until that one starts.
    branch: Option<usize>,
    /// Jumps and breaks that go behind the block.
    ends: Vec<usize>,
    /// Continues that go to the end of the loop's body.
    continues: Vec<usize>,
    /// Whether this is the second branch.
    otherwise: bool,
    /// How many variables there were before the block and behind its pipeline.
    declared: usize,
    live: usize,
    live_inside: usize,
}

impl Control {
    fn name(self) -> &'static str {
        match self {
            Self::If => "if",
            Self::With => "with",
            Self::Range => "range",
        }
    }
}

impl Parser<'_> {
    pub(super) fn open(&mut self, control: Control) -> Parsed<()> {
        let body = self.body();
        let (declared, live) = (body.declared.len(), body.live.len());
        let branch = Some(self.head(control)?);
        let body = self.body();
        body.empty = false;
        let live_inside = body.live.len();
        let (ends, continues) = (Vec::new(), Vec::new());
        body.blocks.push(Block {
            control,
            branch,
            ends,
            continues,
            otherwise: false,
            declared,
            live,
            live_inside,
        });
        Ok(())
    }

    /// The pipeline of a block and the instruction that chooses the branch.
    fn head(&mut self, control: Control) -> Parsed<usize> {
        let pipe = self.pipeline(control.name(), Kind::Right)?;
        let op = match control {
            Control::If => {
                self.emit_pipe(pipe);
                Op::Unless { to: 0 }
            }
            Control::With => {
                self.emit_pipe(pipe);
                Op::With { to: 0 }
            }
            Control::Range => {
                let (first, second) = self.emit_range_pipe(pipe);
                Op::Range { first, second, empty: 0 }
            }
        };
        Ok(self.emit_at(op))
    }

    /// The pipeline of a range and the slots that its variables have.
    fn emit_range_pipe(&mut self, pipe: NodeId) -> (Option<Slot>, Option<Slot>) {
        let slots = self.emit_pipe(pipe);
        (slots.first().copied(), slots.get(1).copied())
    }

    pub(super) fn otherwise(&mut self) -> Parsed<()> {
        let chained = match self.peek_solid().kind {
            Kind::Keyword(Keyword::If) => Some(Control::If),
            Kind::Keyword(Keyword::With) => Some(Control::With),
            _ => None,
        };
        if chained.is_none() {
            self.expect_right("else")?;
        }
        let context = self.body().context;
        let Some(block) = self.body().blocks.last() else {
            return Err(match context {
                "" => "unexpected {{else}}".to_owned(),
                _ => format!("unexpected {{{{else}}}} in {context}"),
            });
        };
        if block.otherwise {
            return Err("expected end; found {{else}}".to_owned());
        }
        let control = block.control;
        if let Some(chained) = chained
            && chained != control
        {
            let token = self.next_solid();
            return Err(self.unexpected(token, "input"));
        }
        self.finish_branch(true);
        let live_inside = self.body().blocks.last().map_or(0, |block| block.live_inside);
        self.body().live.truncate(live_inside);
        if chained.is_none() {
            if let Some(block) = self.body().blocks.last_mut() {
                block.otherwise = true;
            }
            return Ok(());
        }
        // The next condition of the chain takes the place of this one.
        self.action = None;
        self.next_solid();
        let branch = self.head(control)?;
        let body = self.body();
        let live_inside = body.live.len();
        if let Some(block) = body.blocks.last_mut() {
            block.branch = Some(branch);
            block.live_inside = live_inside;
        }
        Ok(())
    }

    /// Ends the first branch: goes behind the block, and lets the other branch start here.
    fn finish_branch(&mut self, more: bool) {
        let Some(block) = self.body().blocks.last_mut() else { return };
        let (control, branch) = (block.control, block.branch.take());
        let continues = std::mem::take(&mut block.continues);
        if let Some(branch) = branch {
            match control {
                Control::If => {}
                Control::With => {
                    self.emit(Op::Leave);
                }
                Control::Range => {
                    let next = self.here();
                    for at in continues {
                        self.patch(at, next);
                    }
                    let body = Address::try_from(branch + 1).unwrap_or(Address::MAX);
                    self.emit(Op::Next { body });
                }
            }
            if more {
                let jump = self.emit_at(Op::Jump { to: 0 });
                if let Some(block) = self.body().blocks.last_mut() {
                    block.ends.push(jump);
                }
            }
            let here = self.here();
            self.patch(branch, here);
        }
    }

    pub(super) fn end(&mut self) -> Parsed<()> {
        self.expect_right("end")?;
        if self.body().blocks.is_empty() {
            if self.bodies.len() == 1 {
                return Err("unexpected {{end}}".to_owned());
            }
            return match self.bodies.pop() {
                Some(draft) => self.define(draft),
                None => Ok(()),
            };
        }
        self.finish_branch(false);
        let here = self.here();
        if let Some(block) = self.body().blocks.pop() {
            for at in block.ends {
                self.patch(at, here);
            }
            let body = self.body();
            body.declared.truncate(block.declared);
            body.live.truncate(block.live);
        }
        Ok(())
    }

    pub(super) fn leave_range(&mut self, what: &str) -> Parsed<()> {
        let token = self.next_solid();
        if token.kind != Kind::Right {
            return Err(self.unexpected(token, what));
        }
        // The other branch of a range is outside of it.
        let inside = |block: &Block| block.control == Control::Range && !block.otherwise;
        if !self.body().blocks.iter().any(inside) {
            return Err(format!("{what} outside {{{{range}}}}"));
        }
        let is_break = what == "{{break}}";
        let at = self.emit_at(if is_break { Op::Break { to: 0 } } else { Op::Jump { to: 0 } });
        if let Some(block) = self.body().blocks.iter_mut().rev().find(|block| inside(block)) {
            if is_break { block.ends.push(at) } else { block.continues.push(at) }
        }
        Ok(())
    }

    pub(super) fn template(&mut self) -> Parsed<()> {
        const CONTEXT: &str = "template clause";
        let (position, name) = self.quoted_name(CONTEXT)?;
        let token = self.next_solid();
        let pipe = if token.kind == Kind::Right {
            None
        } else {
            self.put_back(token);
            Some(self.pipeline(CONTEXT, Kind::Right)?)
        };
        self.emit_template(position, name, pipe);
        Ok(())
    }

    pub(super) fn block(&mut self) -> Parsed<()> {
        const CONTEXT: &str = "block clause";
        let (position, name) = self.quoted_name(CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, Kind::Right)?;
        self.emit_template(position, name.clone(), Some(pipe));
        self.bodies.push(Draft::new(name, CONTEXT));
        Ok(())
    }

    pub(super) fn definition(&mut self) -> Parsed<()> {
        const CONTEXT: &str = "define clause";
        self.action = None;
        let (_, name) = self.quoted_name(CONTEXT)?;
        self.expect_right(CONTEXT)?;
        self.bodies.push(Draft::new(name, CONTEXT));
        Ok(())
    }

    fn emit_template(&mut self, position: usize, name: String, pipe: Option<NodeId>) {
        self.body().empty = false;
        let node = self.program.tree.add(position, NodeKind::Template { name: name.clone(), pipe });
        let call = u32::try_from(self.program.calls.len()).unwrap_or(u32::MAX);
        self.program.calls.push(Call { name, body: None });
        self.emit(Op::Enter { at: node, call });
        match pipe {
            Some(pipe) => {
                self.emit_pipe(pipe);
            }
            None => self.emit(Op::Nil { at: crate::code::SAME }),
        }
        self.emit(Op::Template { call });
    }
}
