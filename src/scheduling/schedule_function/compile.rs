//! Compiles the syntax tree of a text to schedule functions: functions, statements, targets. Expressions are in
//! [`compile_expr`](super::compile_expr). All mistakes that can be found without a program are reported together.

use super::code::{self, Function, StmtKind, Target, TargetKind};
use super::scope::{Outside, Scope};
use crate::diagnostic::{Diagnostic, Span, nearest};
use crate::script::python::{self, Expr, ExprKind, Stmt};

/// The functions of a text.
#[derive(Debug)]
pub(super) struct Program {
    /// The functions.
    pub functions: Vec<Function>,
    /// The position of the schedule function.
    pub main: usize,
    /// The statements outside of functions, as a function without parameters.
    pub module: Function,
}

/// Does the text contain the name `sch`?
fn mentions_schedule(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "sch")
}

/// Compiles the statements of a file. The schedule function is the one called `name`, else the last one; without any
/// function, the statements themselves.
pub(super) fn program(text: &str, stmts: &[Stmt<'_>], name: Option<&str>) -> Result<Program, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let mut outside = Outside::default();
    let mut definitions = Vec::new();
    let mut rest = Vec::new();
    for stmt in stmts {
        match &stmt.kind {
            python::StmtKind::Function(f) => {
                outside.functions.push(f.name.name);
                definitions.push(&**f);
            }
            python::StmtKind::Import(names) => {
                // `import a.b` makes the name `a`.
                let first = |name: &python::Ident<'_>| {
                    name.name.len() - name.name.split_once('.').map_or(0, |(_, r)| r.len() + 1)
                };
                outside.modules.extend(names.iter().map(|(n, alias)| alias.map_or(&n.name[..first(n)], |a| a.name)));
            }
            python::StmtKind::ImportFrom(_, names) => {
                outside.modules.extend(names.iter().map(|(n, alias)| alias.unwrap_or(*n).name));
            }
            python::StmtKind::If(branches) if is_main_guard(branches) => {}
            _ => rest.push(stmt.clone()),
        }
    }
    if definitions.is_empty() {
        if let Some(name) = name {
            return Err(vec![Diagnostic::error("unknown-function", format!("the text defines no function `{name}`"))]);
        }
        // Older traces are bare statements, in which the schedule is called `sch`.
        if !rest.iter().any(|s| mentions_schedule(&text[s.span.range()])) {
            let d = Diagnostic::error("no-function", "the text defines no schedule function");
            return Err(vec![
                d.help("write `def schedule(sch): …`, or the statements of a trace, which begin with `sch.`"),
            ]);
        }
        let span = Span::new(0, text.lines().next().map_or(0, str::len));
        let mut compiler = Compiler::new(&outside, &["sch"], &rest, &mut errors);
        let body = compiler.body(&rest);
        let function = compiler.finish("schedule", vec![("sch".into(), None)], body, span);
        let module = empty_module();
        return if errors.is_empty() {
            Ok(Program { functions: vec![function], main: 0, module })
        } else {
            Err(errors)
        };
    }
    let mut module_scope = Scope::new(&outside, &[], &rest);
    let globals: Vec<String> = std::mem::take(&mut module_scope.locals).iter().map(|n| n.to_string()).collect();
    let module = {
        for stmt in &rest {
            let allowed = match &stmt.kind {
                python::StmtKind::Assign(..) | python::StmtKind::AnnAssign(..) | python::StmtKind::Pass => true,
                python::StmtKind::Expr(e) => matches!(e.kind, ExprKind::Str(_)),
                _ => false,
            };
            if !allowed {
                let d = Diagnostic::error_at("unsupported", stmt.span, "only constants may stand outside of functions");
                errors.push(d.help("the schedule function is called for you"));
            }
        }
        let constants: Vec<Stmt<'_>> = rest
            .iter()
            .filter(|s| matches!(s.kind, python::StmtKind::Assign(..) | python::StmtKind::AnnAssign(..)))
            .cloned()
            .collect();
        let mut compiler = Compiler::new(&outside, &[], &constants, &mut errors);
        let body = compiler.body(&constants);
        compiler.finish("", Vec::new(), body, Span::default())
    };
    let with_globals = Outside { globals: globals.iter().map(String::as_str).collect(), ..outside };
    let functions: Vec<Function> = definitions.iter().map(|f| function(&with_globals, f, &mut errors)).collect();
    let main = match name {
        None => definitions.len() - 1,
        Some(name) => match definitions.iter().rposition(|f| f.name.name == name) {
            Some(i) => i,
            None => {
                let known = definitions.iter().map(|f| f.name.name);
                let d = Diagnostic::error("unknown-function", format!("the text defines no function `{name}`"));
                let near = nearest(name, known).map(|n| format!("did you mean `{n}`?"));
                errors.push(d.maybe_help(near));
                definitions.len() - 1
            }
        },
    };
    check_main(definitions[main], &mut errors);
    if errors.is_empty() { Ok(Program { functions, main, module }) } else { Err(errors) }
}

fn empty_module() -> Function {
    Function { name: "".into(), params: Vec::new(), locals: Vec::new(), body: Vec::new(), span: Span::default() }
}

/// Is the statement `if __name__ == "__main__":`, which guards statements that only Python runs?
fn is_main_guard(branches: &[python::Branch<'_>]) -> bool {
    match branches.first().and_then(|b| b.test.as_ref()).map(|t| &t.kind) {
        Some(ExprKind::Compare(left, _)) => matches!(left.kind, ExprKind::Name("__name__")),
        _ => false,
    }
}

fn check_main(f: &python::Function<'_>, errors: &mut Vec<Diagnostic>) {
    let help = "a schedule function takes the schedule: `def schedule(sch):`";
    match f.params.split_first() {
        None => errors.push(
            Diagnostic::error_at("schedule-parameter", f.name.span, format!("`{}` has no parameter", f.name.name))
                .help(help),
        ),
        Some((_, more)) => {
            if let Some(p) = more.iter().find(|p| p.default.is_none()) {
                let message = format!("parameter `{}` would get no value", p.name.name);
                errors.push(Diagnostic::error_at("schedule-parameter", p.span, message).help(help));
            }
        }
    }
}

fn function(outside: &Outside<'_>, f: &python::Function<'_>, errors: &mut Vec<Diagnostic>) -> Function {
    if let Some(d) = f.decorators.first() {
        errors.push(Diagnostic::error_at("unsupported", d.span, "a schedule function has no decorators"));
    }
    if let Some(span) = f.odd_param {
        let message = "expected plain parameters, found variable or keyword-only ones";
        errors.push(Diagnostic::error_at("unsupported", span, message));
    }
    let names: Vec<&str> = f.params.iter().map(|p| p.name.name).collect();
    let mut compiler = Compiler::new(outside, &names, &f.body, errors);
    let params = f.params.iter().map(|p| (p.name.name.into(), p.default.as_ref().map(|d| compiler.expr(d)))).collect();
    let body = compiler.body(&f.body);
    compiler.finish(f.name.name, params, body, f.name.span)
}

/// The compilation of one function.
pub(super) struct Compiler<'a, 'o, 'e> {
    /// The meanings of names.
    pub scope: Scope<'a, 'o>,
    /// Mistakes found so far.
    pub errors: &'e mut Vec<Diagnostic>,
    /// The first parameter: the schedule.
    pub schedule: Option<&'a str>,
    /// Inside a lambda: are its parameters forbidden here?
    pub no_params: bool,
    loops: usize,
}

impl<'a, 'o, 'e> Compiler<'a, 'o, 'e> {
    fn new(
        outside: &'o Outside<'a>,
        params: &[&'a str],
        body: &[Stmt<'a>],
        errors: &'e mut Vec<Diagnostic>,
    ) -> Compiler<'a, 'o, 'e> {
        let scope = Scope::new(outside, params, body);
        Compiler { scope, errors, schedule: params.first().copied(), no_params: false, loops: 0 }
    }

    fn finish(
        self,
        name: &str,
        params: Vec<(Box<str>, Option<code::Expr>)>,
        body: Vec<code::Stmt>,
        span: Span,
    ) -> Function {
        Function { name: name.into(), params, locals: self.scope.locals, body, span }
    }

    /// Reports a construct that schedule functions do not support.
    pub(super) fn unsupported(&mut self, span: Span, what: &str) -> &mut Diagnostic {
        let message = format!("{what} is not possible in a schedule function");
        self.errors.push(Diagnostic::error_at("unsupported", span, message));
        self.errors.last_mut().expect("one was just added")
    }

    fn body(&mut self, stmts: &[Stmt<'a>]) -> Vec<code::Stmt> {
        stmts.iter().filter_map(|s| Some(code::Stmt { kind: self.stmt(s)?, span: s.span })).collect()
    }

    fn stmt(&mut self, s: &Stmt<'a>) -> Option<StmtKind> {
        Some(match &s.kind {
            python::StmtKind::Assign(targets, value) => {
                let value = self.expr(value);
                StmtKind::Assign(targets.iter().map(|t| self.target(t)).collect(), value)
            }
            python::StmtKind::AugAssign(target, op, value) => {
                let value = self.expr(value);
                StmtKind::Update(self.target(target), *op, value)
            }
            python::StmtKind::AnnAssign(target, _, value) => {
                let value = self.expr(value.as_ref()?);
                StmtKind::Assign(vec![self.target(target)], value)
            }
            python::StmtKind::For(f) => {
                if let Some(span) = f.orelse {
                    self.unsupported(span, "`else` after a loop");
                }
                let iter = self.expr(&f.iter);
                let target = self.target(&f.target);
                self.loops += 1;
                let body = self.body(&f.body);
                self.loops -= 1;
                StmtKind::For(target, iter, body)
            }
            python::StmtKind::If(branches) => StmtKind::If(
                branches.iter().map(|b| (b.test.as_ref().map(|t| self.expr(t)), self.body(&b.body))).collect(),
            ),
            // A docstring.
            python::StmtKind::Expr(e) if matches!(e.kind, ExprKind::Str(_)) => return None,
            python::StmtKind::Expr(e) => StmtKind::Expr(self.expr(e)),
            python::StmtKind::Return(value) => StmtKind::Return(value.as_ref().map(|v| self.expr(v))),
            python::StmtKind::Assert(test, _) => StmtKind::Assert(self.expr(test)),
            python::StmtKind::While(w) => {
                self.unsupported(w.test.span, "a `while` loop").help =
                    Some("loop over `range(…)`, and leave it with `break`".to_string());
                return None;
            }
            python::StmtKind::Pass | python::StmtKind::Import(_) | python::StmtKind::ImportFrom(..) => return None,
            python::StmtKind::Break | python::StmtKind::Continue => {
                let (word, kind) = match s.kind {
                    python::StmtKind::Break => ("break", StmtKind::Break),
                    _ => ("continue", StmtKind::Continue),
                };
                if self.loops == 0 {
                    let message = format!("`{word}` stands outside of a loop");
                    self.errors.push(Diagnostic::error_at("syntax", s.span, message));
                }
                kind
            }
            python::StmtKind::Function(f) => {
                self.unsupported(f.name.span, "a function inside another").help =
                    Some("define it beside the schedule function".to_string());
                return None;
            }
            python::StmtKind::Class(c) => {
                self.unsupported(c.name.span, "a class");
                return None;
            }
            python::StmtKind::With(items, _) => {
                self.unsupported(items.first().map_or(s.span, |(e, _)| e.span), "`with`");
                return None;
            }
            python::StmtKind::Other(what) => {
                self.unsupported(s.span, what);
                return None;
            }
        })
    }

    /// Compiles the target of an assignment.
    pub(super) fn target(&mut self, t: &Expr<'a>) -> Target {
        let kind = match &t.kind {
            ExprKind::Name(name) => {
                if self.schedule == Some(*name) {
                    let message = format!("`{name}` is the schedule and stays it");
                    self.errors.push(Diagnostic::error_at("unsupported", t.span, message));
                }
                TargetKind::Variable(self.scope.target(name).unwrap_or(0))
            }
            ExprKind::Tuple(items) | ExprKind::List(items) => {
                let mut star = None;
                let mut targets = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    match &item.kind {
                        ExprKind::Starred(inner) => {
                            if star.replace(i).is_some() {
                                let message = "only one target can be starred";
                                self.errors.push(Diagnostic::error_at("syntax", item.span, message));
                            }
                            targets.push(self.target(inner));
                        }
                        _ => targets.push(self.target(item)),
                    }
                }
                TargetKind::Unpack(targets, star)
            }
            ExprKind::Subscript(of, index) => match &of.kind {
                ExprKind::Name(name) if self.scope.target(name).is_some() => {
                    let variable = self.scope.target(name).unwrap_or(0);
                    TargetKind::Item(variable, self.expr(index))
                }
                _ => {
                    self.unsupported(t.span, "assigning to an item of anything but a variable");
                    TargetKind::Unpack(Vec::new(), None)
                }
            },
            _ => {
                self.unsupported(t.span, "assigning to this");
                TargetKind::Unpack(Vec::new(), None)
            }
        };
        Target { kind, span: t.span }
    }
}
