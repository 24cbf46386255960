//! Writes trees so that tests can compare them: every operation has parentheses.

use super::super::*;

/// The expression that a text is; `Err` with the first message where it is none.
pub(super) fn expression(text: &str) -> Result<String, String> {
    let parsed = parse_expression(text, Span::new(0, text.len()));
    parsed.map(|e| show(&e)).map_err(|errors| errors[0].message.clone())
}

/// The statements of a text, one a line, with those of bodies indented.
pub(super) fn module(text: &str) -> String {
    let parsed = parse_module(text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
    let mut out = String::new();
    parsed.iter().for_each(|s| statement(s, 0, &mut out));
    out
}

/// An expression.
pub(super) fn show(e: &Expr<'_>) -> String {
    match &e.kind {
        ExprKind::Name(name) => name.to_string(),
        ExprKind::Int(value) => value.map_or("big".into(), |v| v.to_string()),
        ExprKind::Float(value) => format!("{value:?}"),
        ExprKind::Str(text) => format!("{text:?}"),
        ExprKind::Bool(value) => value.to_string(),
        ExprKind::None => "none".into(),
        ExprKind::Tuple(elements) => format!("({},)", list(elements)),
        ExprKind::List(elements) => format!("[{}]", list(elements)),
        ExprKind::Dict(items) => {
            let item = |(key, value): &(Option<Expr<'_>>, Expr<'_>)| match key {
                Some(key) => format!("{}: {}", show(key), show(value)),
                None => format!("**{}", show(value)),
            };
            format!("{{{}}}", items.iter().map(item).collect::<Vec<_>>().join(", "))
        }
        ExprKind::Attribute(value, name) => format!("{}.{}", show(value), name.name),
        ExprKind::Call(call) => {
            let keyword = |(name, value): &(Option<Ident<'_>>, Expr<'_>)| match name {
                Some(name) => format!("{}={}", name.name, show(value)),
                None => format!("**{}", show(value)),
            };
            let args = call.args.iter().map(show).chain(call.keywords.iter().map(keyword));
            format!("{}({})", show(&call.callee), args.collect::<Vec<_>>().join(", "))
        }
        ExprKind::Subscript(value, index) => format!("{}[{}]", show(value), show(index)),
        ExprKind::Slice(slice) => {
            let part = |e: &Option<Expr<'_>>| e.as_ref().map(show).unwrap_or_default();
            format!("{}:{}:{}", part(&slice.lower), part(&slice.upper), part(&slice.step))
        }
        ExprKind::Unary(op, value) => format!("({op:?} {})", show(value)),
        ExprKind::Binary(op, left, right) => format!("({} {} {})", show(left), op.token(), show(right)),
        ExprKind::Logical(op, operands) => format!("({op:?} {})", list(operands)),
        ExprKind::Compare(first, rest) => {
            let rest = rest.iter().map(|(op, e)| format!(" {} {}", op.token(), show(e)));
            format!("({}{})", show(first), rest.collect::<String>())
        }
        ExprKind::Conditional(c) => format!("({} if {} else {})", show(&c.then), show(&c.test), show(&c.otherwise)),
        ExprKind::Lambda(l) => {
            let rest = l.rest.iter().map(|r| format!("*{}", r.name));
            let params = l.params.iter().map(|p| p.name.to_string()).chain(rest);
            format!("(lambda {}: {})", params.collect::<Vec<_>>().join(", "), show(&l.body))
        }
        ExprKind::Starred(value) => format!("*{}", show(value)),
        ExprKind::ListComp(c) => {
            let clause = |c: &Clause<'_>| {
                let conditions = c.conditions.iter().map(|e| format!(" if {}", show(e)));
                format!(" for {} in {}{}", show(&c.target), show(&c.iter), conditions.collect::<String>())
            };
            format!("<{}{}>", show(&c.element), c.clauses.iter().map(clause).collect::<String>())
        }
        ExprKind::Format(pieces) => format!("f({})", list(pieces)),
        ExprKind::Other(what) => format!("<{what}>"),
    }
}

fn list(elements: &[Expr<'_>]) -> String {
    elements.iter().map(show).collect::<Vec<_>>().join(", ")
}

fn optional(prefix: &str, e: Option<&Expr<'_>>) -> String {
    e.map(|e| format!("{prefix}{}", show(e))).unwrap_or_default()
}

fn aliases(names: &[(Ident<'_>, Option<Ident<'_>>)]) -> String {
    let alias = |(name, other): &(Ident<'_>, Option<Ident<'_>>)| match other {
        Some(other) => format!("{} as {}", name.name, other.name),
        None => name.name.to_string(),
    };
    names.iter().map(alias).collect::<Vec<_>>().join(", ")
}

fn statement(s: &Stmt<'_>, depth: usize, out: &mut String) {
    let mut line = |text: String| *out += &format!("{}{text}\n", "  ".repeat(depth));
    let bodies: Vec<&[Stmt<'_>]> = match &s.kind {
        StmtKind::Function(f) => {
            f.decorators.iter().for_each(|d| line(format!("@{}", show(d))));
            let param = |p: &Param<'_>| {
                format!("{}{}{}", p.name.name, optional(": ", p.annotation.as_ref()), optional("=", p.default.as_ref()))
            };
            let mut params: Vec<String> = f.params.iter().map(param).collect();
            params.extend(f.rest.map(|r| format!("*{}", r.name)));
            params.extend(f.odd_param.map(|_| "odd".to_string()));
            line(format!("def {}({}){}", f.name.name, params.join(", "), optional(" -> ", f.returns.as_ref())));
            vec![&f.body]
        }
        StmtKind::Class(c) => {
            c.decorators.iter().for_each(|d| line(format!("@{}", show(d))));
            line(format!("class {}", c.name.name));
            vec![&c.body]
        }
        StmtKind::For(f) => {
            let orelse = if f.orelse.is_some() { " else" } else { "" };
            line(format!("for {} in {}{orelse}", show(&f.target), show(&f.iter)));
            vec![&f.body]
        }
        StmtKind::While(w) => {
            let orelse = if w.orelse.is_some() { " else" } else { "" };
            line(format!("while {}{orelse}", show(&w.test)));
            vec![&w.body]
        }
        StmtKind::With(items, body) => {
            let item =
                |(value, target): &(Expr<'_>, Option<Expr<'_>>)| show(value) + &optional(" as ", target.as_ref());
            line(format!("with {}", items.iter().map(item).collect::<Vec<_>>().join(", ")));
            vec![body]
        }
        StmtKind::If(branches) => {
            line(format!(
                "if {}",
                branches.iter().map(|b| optional("", b.test.as_ref())).collect::<Vec<_>>().join(" | ")
            ));
            branches.iter().map(|b| &b.body[..]).collect()
        }
        StmtKind::Assign(targets, value) => {
            line(targets.iter().chain([value]).map(show).collect::<Vec<_>>().join(" = "));
            vec![]
        }
        StmtKind::AugAssign(target, op, value) => {
            line(format!("{} {}= {}", show(target), op.token(), show(value)));
            vec![]
        }
        StmtKind::AnnAssign(target, annotation, value) => {
            line(format!("{}: {}{}", show(target), show(annotation), optional(" = ", value.as_ref())));
            vec![]
        }
        StmtKind::Expr(e) => {
            line(show(e));
            vec![]
        }
        StmtKind::Return(value) => {
            line(format!("return{}", optional(" ", value.as_ref())));
            vec![]
        }
        StmtKind::Assert(test, message) => {
            line(format!("assert {}{}", show(test), optional(", ", message.as_ref())));
            vec![]
        }
        StmtKind::Import(names) => {
            line(format!("import {}", aliases(names)));
            vec![]
        }
        StmtKind::ImportFrom(module, names) => {
            line(format!("from {} import {}", module.map_or(".", |m| m.name), aliases(names)));
            vec![]
        }
        StmtKind::Pass | StmtKind::Break | StmtKind::Continue => {
            line(format!("{:?}", s.kind));
            vec![]
        }
        StmtKind::Other(what) => {
            line(format!("<{what}>"));
            vec![]
        }
    };
    for (i, body) in bodies.iter().enumerate() {
        if i > 0 {
            *out += &format!("{}|\n", "  ".repeat(depth));
        }
        body.iter().for_each(|s| statement(s, depth + 1, out));
    }
}
