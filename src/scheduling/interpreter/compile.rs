//! Compiles the syntax tree of a text: functions, statements, targets. Expressions are in
//! [`compile_expr`](super::compile_expr). All mistakes that can be found without a run are reported together.

use super::Vocabulary;
use super::code::{self, CallArgs, Function, Params, StmtKind, Target, TargetKind};
use super::scope::{Meaning, Outside, Scope};
use crate::diagnostic::{Diagnostic, Span};
use crate::script::python::{self, Expr, ExprKind, Ident, Param, Stmt};

/// The parts of a text.
pub(crate) struct Text<'a> {
    /// Functions, in order.
    pub definitions: Vec<&'a python::Function<'a>>,
    /// Imported names, each with the full name of what it stands for.
    imports: Vec<(&'a str, String)>,
    /// The statements outside of functions, except imports and those that only Python runs.
    pub rest: Vec<Stmt<'a>>,
}

impl<'a> Text<'a> {
    /// Sorts the statements of a text.
    pub(crate) fn of(stmts: &'a [Stmt<'a>]) -> Text<'a> {
        let (mut definitions, mut imports, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for stmt in stmts {
            match &stmt.kind {
                python::StmtKind::Function(f) => definitions.push(&**f),
                python::StmtKind::Import(names) => {
                    // `import a.b` makes the name `a`.
                    let first = |name: &'a str| name.split_once('.').map_or(name, |(first, _)| first);
                    imports.extend(names.iter().map(|(n, alias)| match alias {
                        Some(alias) => (alias.name, n.name.to_owned()),
                        None => (first(n.name), first(n.name).to_owned()),
                    }));
                }
                python::StmtKind::ImportFrom(module, names) => {
                    let path = |n: &Ident<'a>| match module {
                        Some(module) => format!("{}.{}", module.name, n.name),
                        None => n.name.to_owned(),
                    };
                    imports.extend(names.iter().map(|(n, alias)| (alias.unwrap_or(*n).name, path(n))));
                }
                python::StmtKind::If(branches) if is_main_guard(branches) => {}
                _ => rest.push(stmt.clone()),
            }
        }
        Text { definitions, imports, rest }
    }

    /// The names that functions of the text see. `globals` are the variables outside of functions.
    fn outside<C: Vocabulary>(&self, globals: Vec<&'a str>) -> Outside<'a> {
        let known = C::MODULES.iter().map(|&(name, path)| (name, path.to_owned()));
        Outside {
            globals,
            functions: self.definitions.iter().map(|f| f.name.name).collect(),
            modules: known.chain(self.imports.iter().cloned()).collect(),
        }
    }

    /// Compiles the functions, and these statements outside of functions.
    pub(crate) fn compile<C: Vocabulary>(&self, module: &[Stmt<'a>], errors: &mut Vec<Diagnostic>) -> Program<C> {
        let outside = self.outside::<C>(Vec::new());
        let globals: Vec<&'a str> = Scope::new(&outside, &[], module).names();
        let mut functions: Vec<Option<Function<C>>> = self.definitions.iter().map(|_| None).collect();
        let statements = {
            let mut compiler = Compiler::new(&outside, None, &mut functions, errors);
            compiler.function("", Span::default(), &[], None, module)
        };
        let outside = self.outside::<C>(globals);
        for (i, f) in self.definitions.iter().enumerate() {
            if let (Some(span), None) = (f.odd_param, f.rest) {
                let message = "expected plain parameters, found variable or keyword-only ones";
                errors.push(Diagnostic::error_at("unsupported", span, message));
            }
            let first = f.params.first().map(|p| p.name.name).filter(|_| C::FIXED_FIRST_PARAMETER);
            let mut compiler = Compiler::new(&outside, first, &mut functions, errors);
            let compiled = compiler.function(f.name.name, f.name.span, &f.params, f.rest, &f.body);
            functions[i] = Some(compiled);
        }
        Program { functions: functions.into_iter().flatten().collect(), module: statements }
    }

    /// Compiles bare statements as a function of this name with one parameter.
    pub(crate) fn compile_statements<C: Vocabulary>(
        &self,
        name: &str,
        span: Span,
        param: Ident<'a>,
        errors: &mut Vec<Diagnostic>,
    ) -> Program<C> {
        let outside = self.outside::<C>(Vec::new());
        let mut functions = vec![None];
        let param = Param { name: param, span: param.span, annotation: None, default: None };
        let first = Some(param.name.name).filter(|_| C::FIXED_FIRST_PARAMETER);
        let mut compiler = Compiler::new(&outside, first, &mut functions, errors);
        let main = compiler.function(name, span, &[param], None, &self.rest);
        functions[0] = Some(main);
        Program { functions: functions.into_iter().flatten().collect(), module: empty() }
    }
}

/// The compiled text.
#[derive(Debug)]
pub(crate) struct Program<C> {
    /// The functions: those of the text in order, then those that are nested in them.
    pub functions: Vec<Function<C>>,
    /// The statements outside of functions, as a function without parameters.
    pub module: Function<C>,
}

fn empty<C>() -> Function<C> {
    Function {
        name: "".into(),
        params: Vec::new(),
        rest: None,
        locals: Vec::new(),
        body: Vec::new(),
        span: Span::default(),
    }
}

/// Is the statement `if __name__ == "__main__":`, which guards statements that only Python runs?
fn is_main_guard(branches: &[python::Branch<'_>]) -> bool {
    match branches.first().and_then(|b| b.test.as_ref()).map(|t| &t.kind) {
        Some(ExprKind::Compare(left, _)) => matches!(left.kind, ExprKind::Name("__name__")),
        _ => false,
    }
}

/// The compilation of a function and those nested in it.
pub(crate) struct Compiler<'a, 'o, 'e, C> {
    outside: &'o Outside<'a>,
    /// The meanings of names, of the function being compiled and those around it, outermost first.
    scopes: Vec<Scope<'a, 'o>>,
    /// All functions so far.
    functions: &'e mut Vec<Option<Function<C>>>,
    /// Mistakes found so far.
    pub errors: &'e mut Vec<Diagnostic>,
    /// The first parameter, if it keeps its value.
    pub first_parameter: Option<&'a str>,
    /// Inside a formula: are its parameters forbidden here?
    pub no_params: bool,
    loops: usize,
}

impl<'a, 'o, 'e, C: Vocabulary> Compiler<'a, 'o, 'e, C> {
    fn new(
        outside: &'o Outside<'a>,
        first_parameter: Option<&'a str>,
        functions: &'e mut Vec<Option<Function<C>>>,
        errors: &'e mut Vec<Diagnostic>,
    ) -> Compiler<'a, 'o, 'e, C> {
        Compiler { outside, scopes: Vec::new(), functions, errors, first_parameter, no_params: false, loops: 0 }
    }

    /// The names of the function being compiled.
    pub(crate) fn scope(&mut self) -> &mut Scope<'a, 'o> {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::new(self.outside, &[], &[]));
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// The meaning of a name. A variable of a function around this one is taken from it.
    pub(crate) fn find(&mut self, name: &'a str) -> Option<Meaning> {
        match self.scope().find(name) {
            found @ Some(Meaning::Local(_) | Meaning::Param(_)) => found,
            other => self.taken(self.scopes.len() - 1, name).map(Meaning::Local).or(other),
        }
    }

    fn taken(&mut self, level: usize, name: &'a str) -> Option<usize> {
        if let Some(known) = self.scopes[level].target(name) {
            return Some(known);
        }
        let there = self.taken(level.checked_sub(1)?, name)?;
        Some(self.scopes[level].capture(name, there))
    }

    /// Compiles a function.
    fn function(
        &mut self,
        name: &str,
        span: Span,
        params: &[Param<'a>],
        rest: Option<Ident<'a>>,
        body: &[Stmt<'a>],
    ) -> Function<C> {
        let (params, body) = self.open(params, rest, body);
        self.finish(name, span, params, rest, body)
    }

    /// Compiles the parameters and the statements of a function, whose scope stays open.
    fn open(
        &mut self,
        params: &[Param<'a>],
        rest: Option<Ident<'a>>,
        body: &[Stmt<'a>],
    ) -> (Params<C>, Vec<code::Stmt<C>>) {
        let names: Vec<&str> = params.iter().map(|p| p.name.name).chain(rest.map(|r| r.name)).collect();
        let params = params.iter().map(|p| (p.name.name.into(), p.default.as_ref().map(|d| self.default(d)))).collect();
        self.scopes.push(Scope::new(self.outside, &names, body));
        let loops = std::mem::take(&mut self.loops);
        let body = self.body(body);
        self.loops = loops;
        (params, body)
    }

    fn finish(
        &mut self,
        name: &str,
        span: Span,
        params: Params<C>,
        rest: Option<Ident<'a>>,
        body: Vec<code::Stmt<C>>,
    ) -> Function<C> {
        let scope = self.scopes.pop().unwrap_or_else(|| Scope::new(self.outside, &[], &[]));
        let rest = rest.map(|_| params.len());
        Function { name: name.into(), params, rest, locals: scope.locals, body, span }
    }

    /// A default value sees what stands outside of functions only.
    fn default(&mut self, value: &Expr<'a>) -> Box<Function<C>> {
        let scopes = std::mem::take(&mut self.scopes);
        self.scopes.push(Scope::new(self.outside, &[], &[]));
        let result = code::Stmt { kind: StmtKind::Return(Some(self.expr(value))), span: value.span };
        let function = self.finish("", value.span, Vec::new(), None, vec![result]);
        self.scopes = scopes;
        Box::new(function)
    }

    /// A nested function as a value.
    fn nested(&mut self, f: &python::Function<'a>) -> code::ExprKind<C> {
        if let Some(span) = f.odd_param.filter(|_| f.rest.is_none()).or(f.decorators.first().map(|d| d.span)) {
            let message = "expected plain parameters and no decorators in a nested function";
            self.errors.push(Diagnostic::error_at("unsupported", span, message));
        }
        let (params, body) = self.open(&f.params, f.rest, &f.body);
        self.add_closure(f.name.name, f.name.span, params, f.rest, body)
    }

    fn add_closure(
        &mut self,
        name: &str,
        span: Span,
        params: Params<C>,
        rest: Option<Ident<'a>>,
        body: Vec<code::Stmt<C>>,
    ) -> code::ExprKind<C> {
        let captured = std::mem::take(&mut self.scope().captured);
        let function = self.finish(name, span, params, rest, body);
        self.functions.push(Some(function));
        code::ExprKind::Closure(self.functions.len() - 1, captured)
    }

    /// A lambda as a function: its parameters and the one that takes all other arguments.
    pub(crate) fn closure(&mut self, lambda: &python::Lambda<'a>, span: Span) -> code::ExprKind<C> {
        let python::Lambda { params, rest, body } = lambda;
        let names: Vec<&str> = params.iter().chain(rest).map(|p| p.name).collect();
        self.scopes.push(Scope::new(self.outside, &names, &[]));
        let result = code::Stmt { kind: StmtKind::Return(Some(self.expr(body))), span: body.span };
        let params = params.iter().map(|p| (p.name.into(), None)).collect();
        self.add_closure("lambda", span, params, *rest, vec![result])
    }

    /// Compiles the arguments of a call.
    pub(crate) fn call_args(&mut self, call: &python::Call<'a>) -> CallArgs<C> {
        CallArgs { positional: self.items(&call.args), keywords: self.keywords(call) }
    }

    /// Reports a construct that is not supported.
    pub(crate) fn unsupported(&mut self, span: Span, what: &str) -> &mut Diagnostic {
        let message = format!("{what} is not possible in {}", C::WHAT);
        self.errors.push(Diagnostic::error_at("unsupported", span, message));
        self.errors.last_mut().expect("one was just added")
    }

    fn body(&mut self, stmts: &[Stmt<'a>]) -> Vec<code::Stmt<C>> {
        stmts.iter().filter_map(|s| Some(code::Stmt { kind: self.stmt(s)?, span: s.span })).collect()
    }

    fn stmt(&mut self, s: &Stmt<'a>) -> Option<StmtKind<C>> {
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
            python::StmtKind::Function(f) if C::CLOSURES => {
                let value = code::Expr { kind: self.nested(f), span: f.name.span };
                let variable = self.scope().target(f.name.name).unwrap_or(0);
                StmtKind::Assign(vec![Target { kind: TargetKind::Variable(variable), span: f.name.span }], value)
            }
            python::StmtKind::Function(f) => {
                self.unsupported(f.name.span, "a function inside another").help =
                    Some("define it outside of functions".to_string());
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
    pub(crate) fn target(&mut self, t: &Expr<'a>) -> Target<C> {
        let kind = match &t.kind {
            ExprKind::Name(name) => {
                if self.first_parameter == Some(*name) {
                    let message = format!("`{name}` cannot get another value");
                    self.errors.push(Diagnostic::error_at("unsupported", t.span, message));
                }
                TargetKind::Variable(self.scope().target(name).unwrap_or(0))
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
                ExprKind::Name(name) if self.scope().target(name).is_some() => {
                    let variable = self.scope().target(name).unwrap_or(0);
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
