//! Converts the parser's tree to tvmr's own.

use super::{
    BinaryOp, Branch, Call, Class, Clause, CompareOp, Comprehension, Conditional, Expr, ExprKind, For, Function, Ident,
    Lambda, LogicalOp, Param, Slice, Stmt, StmtKind, UnaryOp, While,
};
use crate::diagnostic::Span;
use ruff_python_ast as ast;
use ruff_text_size::{Ranged, TextRange};

pub(super) fn span_of(range: TextRange) -> Span {
    Span { start: range.start().into(), end: range.end().into() }
}

pub(super) struct Convert<'a> {
    pub text: &'a str,
}

impl<'a> Convert<'a> {
    fn slice(&self, range: TextRange) -> &'a str {
        &self.text[usize::from(range.start())..usize::from(range.end())]
    }

    fn ident(&self, id: &ast::Identifier) -> Ident<'a> {
        Ident { name: self.slice(id.range), span: span_of(id.range) }
    }

    fn exprs(&self, list: &[ast::Expr]) -> Vec<Expr<'a>> {
        list.iter().map(|e| self.expr(e)).collect()
    }

    fn boxed(&self, e: &ast::Expr) -> Box<Expr<'a>> {
        Box::new(self.expr(e))
    }

    pub(super) fn expr(&self, e: &ast::Expr) -> Expr<'a> {
        let kind = match e {
            ast::Expr::Name(n) => ExprKind::Name(self.slice(n.range)),
            ast::Expr::NumberLiteral(n) => match &n.value {
                ast::Number::Int(v) => ExprKind::Int(v.as_u64()),
                ast::Number::Float(v) => ExprKind::Float(*v),
                ast::Number::Complex { .. } => ExprKind::Other("a complex number"),
            },
            ast::Expr::StringLiteral(s) => ExprKind::Str(s.value.to_str().into()),
            ast::Expr::BooleanLiteral(b) => ExprKind::Bool(b.value),
            ast::Expr::NoneLiteral(_) => ExprKind::None,
            ast::Expr::Tuple(t) => ExprKind::Tuple(self.exprs(&t.elts)),
            ast::Expr::List(l) => ExprKind::List(self.exprs(&l.elts)),
            ast::Expr::Dict(d) => ExprKind::Dict(
                d.items.iter().map(|i| (i.key.as_ref().map(|k| self.expr(k)), self.expr(&i.value))).collect(),
            ),
            ast::Expr::Attribute(a) => ExprKind::Attribute(self.boxed(&a.value), self.ident(&a.attr)),
            ast::Expr::Call(c) => ExprKind::Call(Box::new(Call {
                callee: self.expr(&c.func),
                args: self.exprs(&c.arguments.args),
                keywords: (c.arguments.keywords.iter())
                    .map(|k| (k.arg.as_ref().map(|a| self.ident(a)), self.expr(&k.value)))
                    .collect(),
                args_span: span_of(c.arguments.range),
            })),
            ast::Expr::Subscript(s) => ExprKind::Subscript(self.boxed(&s.value), self.boxed(&s.slice)),
            ast::Expr::Slice(s) => {
                let part = |e: &Option<Box<ast::Expr>>| e.as_deref().map(|e| self.expr(e));
                ExprKind::Slice(Box::new(Slice { lower: part(&s.lower), upper: part(&s.upper), step: part(&s.step) }))
            }
            ast::Expr::UnaryOp(u) => {
                let op = match u.op {
                    ast::UnaryOp::Invert => UnaryOp::Invert,
                    ast::UnaryOp::Not => UnaryOp::Not,
                    ast::UnaryOp::UAdd => UnaryOp::Pos,
                    ast::UnaryOp::USub => UnaryOp::Neg,
                };
                ExprKind::Unary(op, self.boxed(&u.operand))
            }
            ast::Expr::BinOp(b) => ExprKind::Binary(binary_op(b.op), self.boxed(&b.left), self.boxed(&b.right)),
            ast::Expr::BoolOp(b) => {
                let op = match b.op {
                    ast::BoolOp::And => LogicalOp::And,
                    ast::BoolOp::Or => LogicalOp::Or,
                };
                ExprKind::Logical(op, self.exprs(&b.values))
            }
            ast::Expr::Compare(c) => {
                let rest = c.ops.iter().zip(&c.comparators).map(|(op, e)| (compare_op(*op), self.expr(e)));
                ExprKind::Compare(self.boxed(&c.left), rest.collect())
            }
            ast::Expr::If(i) => ExprKind::Conditional(Box::new(Conditional {
                test: self.expr(&i.test),
                then: self.expr(&i.body),
                otherwise: self.expr(&i.orelse),
            })),
            ast::Expr::Lambda(l) => {
                let simple = l.parameters.as_deref().is_none_or(|p| {
                    p.kwarg.is_none()
                        && p.kwonlyargs.is_empty()
                        && p.iter_non_variadic_params().all(|p| p.default.is_none())
                });
                let names = l.parameters.iter().flat_map(|p| p.iter_non_variadic_params());
                let params = names.map(|p| self.ident(&p.parameter.name)).collect();
                let rest = l.parameters.as_deref().and_then(|p| p.vararg.as_deref());
                if simple {
                    let rest = rest.map(|p| self.ident(&p.name));
                    ExprKind::Lambda(Box::new(Lambda { params, rest, body: self.expr(&l.body) }))
                } else {
                    ExprKind::Other("a lambda with defaults or keyword arguments")
                }
            }
            ast::Expr::Starred(s) => ExprKind::Starred(self.boxed(&s.value)),
            ast::Expr::Named(_) => ExprKind::Other("an assignment expression"),
            ast::Expr::Set(_) => ExprKind::Other("a set"),
            ast::Expr::ListComp(c) => self.comprehension(&c.elt, &c.generators),
            ast::Expr::Generator(g) => self.comprehension(&g.elt, &g.generators),
            ast::Expr::SetComp(_) => ExprKind::Other("a set"),
            ast::Expr::DictComp(_) => ExprKind::Other("a dictionary comprehension"),
            ast::Expr::Await(_) => ExprKind::Other("`await`"),
            ast::Expr::Yield(_) | ast::Expr::YieldFrom(_) => ExprKind::Other("`yield`"),
            ast::Expr::FString(f) => self.format(f),
            ast::Expr::TString(_) => ExprKind::Other("a template string"),
            ast::Expr::BytesLiteral(_) => ExprKind::Other("a bytes literal"),
            ast::Expr::EllipsisLiteral(_) => ExprKind::Other("`...`"),
            ast::Expr::IpyEscapeCommand(_) => ExprKind::Other("a shell command"),
        };
        Expr { kind, span: span_of(e.range()) }
    }

    fn comprehension(&self, element: &ast::Expr, clauses: &[ast::Comprehension]) -> ExprKind<'a> {
        if clauses.iter().any(|c| c.is_async) {
            return ExprKind::Other("an `async` comprehension");
        }
        let clause = |c: &ast::Comprehension| Clause {
            target: self.expr(&c.target),
            iter: self.expr(&c.iter),
            conditions: self.exprs(&c.ifs),
        };
        let clauses = clauses.iter().map(clause).collect();
        ExprKind::ListComp(Box::new(Comprehension { element: self.expr(element), clauses }))
    }

    fn format(&self, f: &ast::ExprFString) -> ExprKind<'a> {
        let text = |s: &str, range| Expr { kind: ExprKind::Str(s.into()), span: span_of(range) };
        let mut pieces = Vec::new();
        for part in &f.value {
            match part {
                ast::FStringPart::Literal(s) => pieces.push(text(s.as_str(), s.range)),
                ast::FStringPart::FString(f) => {
                    for element in &f.elements {
                        match element {
                            ast::InterpolatedStringElement::Literal(s) => pieces.push(text(&s.value, s.range)),
                            ast::InterpolatedStringElement::Interpolation(i) => {
                                let plain = i.conversion == ast::ConversionFlag::None && i.debug_text.is_none();
                                if i.format_spec.is_some() || !plain {
                                    return ExprKind::Other("a format specification");
                                }
                                pieces.push(self.expr(&i.expression));
                            }
                        }
                    }
                }
            }
        }
        ExprKind::Format(pieces)
    }

    fn stmts(&self, list: &[ast::Stmt]) -> Vec<Stmt<'a>> {
        list.iter().map(|s| self.stmt(s)).collect()
    }

    fn aliases(&self, names: &[ast::Alias]) -> Vec<(Ident<'a>, Option<Ident<'a>>)> {
        names.iter().map(|a| (self.ident(&a.name), a.asname.as_ref().map(|n| self.ident(n)))).collect()
    }

    fn decorators(&self, list: &[ast::Decorator]) -> Vec<Expr<'a>> {
        list.iter().map(|d| self.expr(&d.expression)).collect()
    }

    pub(super) fn stmt(&self, s: &ast::Stmt) -> Stmt<'a> {
        let kind = match s {
            ast::Stmt::FunctionDef(f) if !f.is_async => StmtKind::Function(Box::new(self.function(f))),
            ast::Stmt::FunctionDef(_) => StmtKind::Other("an `async` function"),
            ast::Stmt::ClassDef(c) => StmtKind::Class(Box::new(Class {
                name: self.ident(&c.name),
                decorators: self.decorators(&c.decorator_list),
                body: self.stmts(&c.body),
            })),
            ast::Stmt::Assign(a) => StmtKind::Assign(self.exprs(&a.targets), self.expr(&a.value)),
            ast::Stmt::AugAssign(a) => StmtKind::AugAssign(self.expr(&a.target), binary_op(a.op), self.expr(&a.value)),
            ast::Stmt::AnnAssign(a) => StmtKind::AnnAssign(
                self.expr(&a.target),
                self.expr(&a.annotation),
                a.value.as_deref().map(|e| self.expr(e)),
            ),
            ast::Stmt::For(f) if !f.is_async => StmtKind::For(Box::new(For {
                target: self.expr(&f.target),
                iter: self.expr(&f.iter),
                body: self.stmts(&f.body),
                orelse: f.orelse.first().map(|s| span_of(s.range())),
            })),
            ast::Stmt::For(_) => StmtKind::Other("an `async` loop"),
            ast::Stmt::If(i) => {
                let end_of = |body: &[ast::Stmt]| body.last().map_or(i.range.end(), |s| s.end());
                let first = Branch {
                    test: Some(self.expr(&i.test)),
                    body: self.stmts(&i.body),
                    span: span_of(TextRange::new(i.range.start(), end_of(&i.body))),
                };
                let rest = i.elif_else_clauses.iter().map(|c| Branch {
                    test: c.test.as_ref().map(|t| self.expr(t)),
                    body: self.stmts(&c.body),
                    span: span_of(c.range),
                });
                StmtKind::If(std::iter::once(first).chain(rest).collect())
            }
            ast::Stmt::With(w) if !w.is_async => {
                let item =
                    |i: &ast::WithItem| (self.expr(&i.context_expr), i.optional_vars.as_deref().map(|v| self.expr(v)));
                StmtKind::With(w.items.iter().map(item).collect(), self.stmts(&w.body))
            }
            ast::Stmt::With(_) => StmtKind::Other("an `async with`"),
            ast::Stmt::Expr(e) => StmtKind::Expr(self.expr(&e.value)),
            ast::Stmt::Return(r) => StmtKind::Return(r.value.as_deref().map(|e| self.expr(e))),
            ast::Stmt::Assert(a) => StmtKind::Assert(self.expr(&a.test), a.msg.as_deref().map(|e| self.expr(e))),
            ast::Stmt::Import(i) => StmtKind::Import(self.aliases(&i.names)),
            ast::Stmt::ImportFrom(i) => {
                StmtKind::ImportFrom(i.module.as_ref().map(|m| self.ident(m)), self.aliases(&i.names))
            }
            ast::Stmt::Pass(_) => StmtKind::Pass,
            ast::Stmt::While(w) => StmtKind::While(Box::new(While {
                test: self.expr(&w.test),
                body: self.stmts(&w.body),
                orelse: w.orelse.first().map(|s| span_of(s.range())),
            })),
            ast::Stmt::Delete(_) => StmtKind::Other("`del`"),
            ast::Stmt::TypeAlias(_) => StmtKind::Other("a type alias"),
            ast::Stmt::Match(_) => StmtKind::Other("`match`"),
            ast::Stmt::Raise(_) => StmtKind::Other("`raise`"),
            ast::Stmt::Try(_) => StmtKind::Other("`try`"),
            ast::Stmt::Global(_) => StmtKind::Other("`global`"),
            ast::Stmt::Nonlocal(_) => StmtKind::Other("`nonlocal`"),
            ast::Stmt::Break(_) => StmtKind::Break,
            ast::Stmt::Continue(_) => StmtKind::Continue,
            ast::Stmt::IpyEscapeCommand(_) => StmtKind::Other("a shell command"),
        };
        Stmt { kind, span: span_of(s.range()) }
    }

    fn function(&self, f: &ast::StmtFunctionDef) -> Function<'a> {
        let p = &f.parameters;
        let param = |p: &ast::ParameterWithDefault| Param {
            name: self.ident(&p.parameter.name),
            span: span_of(p.parameter.range),
            annotation: p.parameter.annotation.as_deref().map(|e| self.expr(e)),
            default: p.default.as_deref().map(|e| self.expr(e)),
        };
        let odd = p.vararg.as_deref().or(p.kwarg.as_deref()).map(|p| p.range);
        Function {
            name: self.ident(&f.name),
            decorators: self.decorators(&f.decorator_list),
            params: p.posonlyargs.iter().chain(&p.args).map(param).collect(),
            odd_param: odd.or(p.kwonlyargs.first().map(|p| p.range)).map(span_of),
            rest: match (&p.vararg, &p.kwarg, &p.kwonlyargs[..]) {
                (Some(rest), None, []) => Some(self.ident(&rest.name)),
                _ => None,
            },
            returns: f.returns.as_deref().map(|e| self.expr(e)),
            body: self.stmts(&f.body),
        }
    }
}

fn binary_op(op: ast::Operator) -> BinaryOp {
    match op {
        ast::Operator::Add => BinaryOp::Add,
        ast::Operator::Sub => BinaryOp::Sub,
        ast::Operator::Mult => BinaryOp::Mul,
        ast::Operator::MatMult => BinaryOp::MatMul,
        ast::Operator::Div => BinaryOp::Div,
        ast::Operator::Mod => BinaryOp::Mod,
        ast::Operator::Pow => BinaryOp::Pow,
        ast::Operator::LShift => BinaryOp::Shl,
        ast::Operator::RShift => BinaryOp::Shr,
        ast::Operator::BitOr => BinaryOp::BitOr,
        ast::Operator::BitXor => BinaryOp::BitXor,
        ast::Operator::BitAnd => BinaryOp::BitAnd,
        ast::Operator::FloorDiv => BinaryOp::FloorDiv,
    }
}

fn compare_op(op: ast::CmpOp) -> CompareOp {
    match op {
        ast::CmpOp::Eq => CompareOp::Eq,
        ast::CmpOp::NotEq => CompareOp::Ne,
        ast::CmpOp::Lt => CompareOp::Lt,
        ast::CmpOp::LtE => CompareOp::Le,
        ast::CmpOp::Gt => CompareOp::Gt,
        ast::CmpOp::GtE => CompareOp::Ge,
        ast::CmpOp::Is => CompareOp::Is,
        ast::CmpOp::IsNot => CompareOp::IsNot,
        ast::CmpOp::In => CompareOp::In,
        ast::CmpOp::NotIn => CompareOp::NotIn,
    }
}
