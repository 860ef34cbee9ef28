//! Changes to parsed expressions: budget, bounded results, optional chains, `cel.bind` and `optMap`.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, SelectExpr,
    operators,
};

/// Pays for one turn of a loop.
pub const TICK: &str = "@tick";
/// Checks the size of what an addition made.
pub const SIZED: &str = "@sized";
/// Checks a format string.
pub const FORMAT: &str = "@format";
/// Checks what a join will make.
pub const JOINABLE: &str = "@joinable";

const COSTLY: [&str; 7] = ["matches", "find", "findAll", "url", "isURL", "quantity", "isSorted"];

/// How deep the expression nests.
pub fn depth(expression: &IdedExpr) -> usize {
    // an explicit stack: the tree may be far deeper than the limit
    let mut deepest = 0;
    let mut open = vec![(expression, 1)];
    while let Some((node, depth)) = open.pop() {
        deepest = deepest.max(depth);
        children(node, &mut |child| open.push((child, depth + 1)));
    }
    deepest
}

/// The free variables of an expression, each once.
pub fn variables(expression: &IdedExpr) -> Vec<String> {
    let mut found = Vec::new();
    collect(expression, &mut Vec::new(), &mut found);
    found
}

fn collect<'a>(node: &'a IdedExpr, bound: &mut Vec<&'a str>, found: &mut Vec<String>) {
    match &node.expr {
        Expr::Ident(name) => {
            if !bound.contains(&name.as_str()) && !found.contains(name) {
                found.push(name.clone());
            }
        }
        Expr::Comprehension(loop_) => {
            collect(&loop_.iter_range, bound, found);
            collect(&loop_.accu_init, bound, found);
            let before = bound.len();
            bound.push(&loop_.iter_var);
            bound.extend(loop_.iter_var2.as_deref());
            bound.push(&loop_.accu_var);
            for part in [&loop_.loop_cond, &loop_.loop_step, &loop_.result] {
                collect(part, bound, found);
            }
            bound.truncate(before);
        }
        Expr::Call(call) => {
            if let Some(target) = &call.target {
                // `cel`, `math` and so on are namespaces of functions, not variables
                let namespace = matches!(&target.expr, Expr::Ident(name) if NAMESPACES.contains(&name.as_str()));
                if !namespace {
                    collect(target, bound, found);
                }
            }
            match bound_by(call) {
                Some(name) => {
                    let mut rest = call.args.iter().skip(1);
                    let last = call.args.len().saturating_sub(2);
                    for (i, arg) in rest.by_ref().enumerate() {
                        let before = bound.len();
                        if i == last {
                            bound.push(name);
                        }
                        collect(arg, bound, found);
                        bound.truncate(before);
                    }
                }
                None => call.args.iter().for_each(|arg| collect(arg, bound, found)),
            }
        }
        _ => children(node, &mut |child| collect(child, bound, found)),
    }
}

/// The chains of fields that are read from `variable`, e.g. `[["spec", "a"]]` for `variable.spec.a`.
pub fn chains(node: &IdedExpr, variable: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    collect_chains(node, variable, &mut found);
    found
}

fn collect_chains(node: &IdedExpr, variable: &str, found: &mut Vec<Vec<String>>) {
    let mut fields = Vec::new();
    let mut at = node;
    while let Expr::Select(select) = &at.expr {
        fields.push(select.field.clone());
        at = &select.operand;
    }
    if !fields.is_empty() && matches!(&at.expr, Expr::Ident(name) if name == variable) {
        fields.reverse();
        found.push(fields);
        return;
    }
    children(node, &mut |child| collect_chains(child, variable, found));
}

const NAMESPACES: [&str; 11] = [
    "cel",
    "math",
    "sets",
    "lists",
    "strings",
    "optional",
    "base64",
    "format",
    "jsonpatch",
    "ip",
    "cidr",
];

/// The variable that `cel.bind(v, ..)`, `x.optMap(v, ..)` and `x.optFlatMap(v, ..)` bring.
fn bound_by(call: &CallExpr) -> Option<&str> {
    let bind = call.func_name == "bind"
        && call.args.len() == 3
        && matches!(call.target.as_deref(), Some(IdedExpr { expr: Expr::Ident(n), .. }) if n == "cel");
    let opt = (call.func_name == "optMap" || call.func_name == "optFlatMap")
        && call.args.len() == 2
        && call.target.is_some();
    match call.args.first() {
        Some(IdedExpr { expr: Expr::Ident(name), .. }) if bind || opt => Some(name),
        _ => None,
    }
}

fn children<'a>(node: &'a IdedExpr, visit: &mut dyn FnMut(&'a IdedExpr)) {
    match &node.expr {
        Expr::Call(call) => {
            call.target.iter().for_each(|t| visit(t));
            call.args.iter().for_each(visit);
        }
        Expr::Comprehension(c) => {
            for part in [&c.iter_range, &c.accu_init, &c.loop_cond, &c.loop_step, &c.result] {
                visit(part);
            }
        }
        Expr::List(list) => list.elements.iter().for_each(visit),
        Expr::Map(map) => map.entries.iter().for_each(|entry| match &entry.expr {
            EntryExpr::MapEntry(e) => {
                visit(&e.key);
                visit(&e.value);
            }
            EntryExpr::StructField(e) => visit(&e.value),
        }),
        Expr::Select(select) => visit(&select.operand),
        Expr::Struct(s) => s.entries.iter().for_each(|entry| match &entry.expr {
            EntryExpr::MapEntry(e) => {
                visit(&e.key);
                visit(&e.value);
            }
            EntryExpr::StructField(e) => visit(&e.value),
        }),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}

/// Makes an expression safe to run, and gives it what the interpreter lacks.
pub fn guard(node: IdedExpr) -> Result<IdedExpr, String> {
    let id = node.id;
    let made = |expr| Ok(IdedExpr { id, expr });
    match node.expr {
        Expr::Call(call) => guard_call(id, call),
        Expr::Select(select) => {
            let SelectExpr { operand, field, test } = select;
            let operand = guard(*operand)?;
            if !is_optional(&operand) {
                return made(Expr::Select(SelectExpr { operand: Box::new(operand), field, test }));
            }
            // after `a.?b` every further selection is optional too
            let chained = call(operators::OPT_INDEX, None, vec![operand, text(field)]);
            if test { Ok(call("hasValue", Some(chained), vec![])) } else { Ok(chained) }
        }
        Expr::List(list) => {
            let elements = list.elements.into_iter().map(guard).collect::<Result<_, _>>()?;
            made(Expr::List(ListExpr { elements, optional_indices: list.optional_indices }))
        }
        Expr::Map(mut map) => {
            for entry in &mut map.entries {
                match &mut entry.expr {
                    EntryExpr::MapEntry(e) => {
                        e.key = guard(std::mem::take(&mut e.key))?;
                        e.value = guard(std::mem::take(&mut e.value))?;
                    }
                    EntryExpr::StructField(_) => return Err("unsupported literal".to_owned()),
                }
            }
            made(Expr::Map(map))
        }
        Expr::Comprehension(c) => guard_loop(id, *c),
        Expr::Struct(s) => {
            Err(format!("undeclared reference to '{}' (in container '')", s.type_name))
        }
        Expr::Unspecified => Err("Syntax error: empty expression".to_owned()),
        expr @ (Expr::Ident(_) | Expr::Literal(_)) => made(expr),
    }
}

fn guard_loop(id: u64, c: ComprehensionExpr) -> Result<IdedExpr, String> {
    let (mut reads, mut calls) = (0, 0);
    for part in [&c.loop_cond, &c.loop_step] {
        weigh(part, &mut reads, &mut calls);
    }
    let pay = call(TICK, None, vec![int(reads), int(calls)]);
    let cond = call(operators::LOGICAL_AND, None, vec![pay, guard(c.loop_cond)?]);
    let expr = Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: guard(c.iter_range)?,
        iter_var: c.iter_var,
        iter_var2: c.iter_var2,
        accu_var: c.accu_var,
        accu_init: guard(c.accu_init)?,
        loop_cond: cond,
        // the accumulator of `map` and `filter` grows by one item a turn, which the turn pays for
        loop_step: guard_step(c.loop_step)?,
        result: guard(c.result)?,
    }));
    Ok(IdedExpr { id, expr })
}

/// The step of a loop: its own additions and conditions stay as the macro made them.
fn guard_step(step: IdedExpr) -> Result<IdedExpr, String> {
    let id = step.id;
    match step.expr {
        Expr::Call(mut c)
            if c.target.is_none()
                && [operators::ADD, operators::CONDITIONAL].contains(&c.func_name.as_str()) =>
        {
            let conditional = c.func_name == operators::CONDITIONAL;
            c.args = c
                .args
                .into_iter()
                .enumerate()
                .map(|(i, a)| if conditional && i > 0 { guard_step(a) } else { guard(a) })
                .collect::<Result<_, _>>()?;
            Ok(IdedExpr { id, expr: Expr::Call(c) })
        }
        expr => guard(IdedExpr { id, expr }),
    }
}

fn weigh(node: &IdedExpr, reads: &mut i64, calls: &mut i64) {
    match &node.expr {
        // iteration variables are small, what is read from outside may not be
        Expr::Ident(name) if OUTER.contains(&name.as_str()) => *reads += 1,
        Expr::Call(c) if COSTLY.contains(&c.func_name.as_str()) => *calls += 1,
        _ => {}
    }
    children(node, &mut |child| weigh(child, reads, calls));
}

const OUTER: [&str; 8] =
    ["self", "oldSelf", "object", "oldObject", "request", "params", "variables", "namespaceObject"];

fn guard_call(id: u64, c: CallExpr) -> Result<IdedExpr, String> {
    let bound = bound_by(&c).map(str::to_owned);
    let CallExpr { func_name, target, args } = c;
    let namespace =
        matches!(target.as_deref(), Some(IdedExpr { expr: Expr::Ident(n), .. }) if n == "cel");
    if let Some(name) = bound {
        let mut args = args.into_iter().skip(1);
        return match (args.next(), args.next(), target) {
            (Some(init), Some(body), _) if namespace => Ok(bind(name, guard(init)?, guard(body)?)),
            (Some(body), None, Some(target)) => {
                opt_map(name, guard(*target)?, guard(body)?, func_name == "optFlatMap")
            }
            _ => Err(format!("wrong arguments of {func_name}")),
        };
    }
    let target = target.map(|t| guard(*t)).transpose()?;
    let args = args.into_iter().map(guard).collect::<Result<Vec<_>, _>>()?;
    let literal_number = |e: &IdedExpr| {
        matches!(&e.expr, Expr::Literal(LiteralValue::Int(_) | LiteralValue::Double(_)))
    };
    Ok(match (func_name.as_str(), target) {
        (operators::OPT_SELECT, None) => call(operators::OPT_INDEX, None, args),
        (operators::ADD, None) if !args.iter().any(literal_number) => {
            call(SIZED, None, vec![call(operators::ADD, None, args)])
        }
        ("format", Some(target)) if args.len() == 1 => {
            let checked = call(FORMAT, None, vec![target]);
            call(SIZED, None, vec![call("format", Some(checked), args)])
        }
        ("join", Some(target)) => {
            let separator = args.first().cloned().unwrap_or_else(|| text(String::new()));
            let checked = call(JOINABLE, None, vec![target, separator]);
            call("join", Some(checked), args)
        }
        (_, target) => IdedExpr {
            id,
            expr: Expr::Call(CallExpr { func_name, target: target.map(Box::new), args }),
        },
    })
}

/// `cel.bind`: a loop over nothing whose accumulator is the variable.
fn bind(name: String, init: IdedExpr, body: IdedExpr) -> IdedExpr {
    let never = plain(Expr::Literal(LiteralValue::Boolean(false.into())));
    plain(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: plain(Expr::List(ListExpr::new(vec![]))),
        iter_var: "@unused".to_owned(),
        iter_var2: None,
        loop_step: plain(Expr::Ident(name.clone())),
        accu_var: name,
        accu_init: init,
        loop_cond: never,
        result: body,
    })))
}

/// `x.optMap(v, body)`. The interpreter loses optionals that are bound to a name, so `x` is repeated.
fn opt_map(name: String, target: IdedExpr, body: IdedExpr, flat: bool) -> Result<IdedExpr, String> {
    if count(&target) > MAX_REPEATED {
        return Err("expression of optMap is too large".to_owned());
    }
    let namespace = || plain(Expr::Ident("optional".to_owned()));
    let value = bind(name, call("value", Some(target.clone()), vec![]), body);
    let some = if flat { value } else { call("of", Some(namespace()), vec![value]) };
    let none = call("none", Some(namespace()), vec![]);
    let there = call("hasValue", Some(target), vec![]);
    Ok(call(operators::CONDITIONAL, None, vec![there, some, none]))
}

/// The largest expression that is repeated.
const MAX_REPEATED: usize = 200;

fn count(node: &IdedExpr) -> usize {
    let mut nodes = 1;
    children(node, &mut |child| nodes += count(child));
    nodes
}

fn is_optional(node: &IdedExpr) -> bool {
    matches!(&node.expr, Expr::Call(c) if c.func_name == operators::OPT_INDEX)
}

fn plain(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

fn call(name: &str, target: Option<IdedExpr>, args: Vec<IdedExpr>) -> IdedExpr {
    plain(Expr::Call(CallExpr { func_name: name.to_owned(), target: target.map(Box::new), args }))
}

fn text(value: String) -> IdedExpr {
    plain(Expr::Literal(LiteralValue::String(value.as_str().into())))
}

fn int(value: i64) -> IdedExpr {
    plain(Expr::Literal(LiteralValue::Int(value.into())))
}
