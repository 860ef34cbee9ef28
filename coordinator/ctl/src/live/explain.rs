//! `explain`: why does it not run, and what would help?
//!
//! Two sources, told apart: what the coordinator recorded, and what the engine says of the objects as they are now.

mod advice;
mod facts;
mod find;
mod print;
mod ran;
mod recorded;

use std::io::Write;

use self::find::ObjectQuery;
use super::for_programs;
use super::kinds::Scope;
use super::world::World;
use crate::Failure;
use crate::args::{ExplainArgs, Show};

pub(crate) fn explain(args: &ExplainArgs, out: &mut dyn Write) -> Result<bool, Failure> {
    let asked = ObjectQuery::parse(&args.what).map_err(Failure::Usage)?;
    let world = match World::of(&args.engine, &args.cluster, Scope::All) {
        Err(Failure::Forbidden(why)) if !args.cluster.all_namespaces => {
            World::near(&args.engine, &args.cluster, why)?
        }
        world => world?,
    };
    let subject = find::find(&world, &asked).map_err(Failure::Usage)?;
    let ran = ran::run(&world, args.search_timeout);
    let answer = facts::answer(&world, &subject, &ran);
    if !for_programs(&answer, args.output, out)? {
        print::print(&answer, args.output == Show::Wide, out)?;
    }
    Ok(!answer.runs)
}
