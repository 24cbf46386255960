//! Prints kernels; [`super::parse`] reads the text.

use super::expr::{Arena, Expr, ExprId, LocalId, VarId};
use super::kernel::{Access, BufferId, Kernel, Placement, Storage};
use super::stmt::{Body, Failure, For, Hints, Iterations, LoopKind, Stmt, StmtId};
use crate::ir::{BinOp, DType, Symbol};
use hashbrown::HashSet;
use std::fmt::{self, Write};

/// The text of a kernel.
pub fn print(kernel: &Kernel) -> String {
    let mut printer = Printer { kernel, names: Names::new(kernel), out: String::new(), indent: 1 };
    printer.kernel().expect("writing to a string does not fail");
    printer.out
}

/// The text of some statements of a kernel, with the names of the kernel's text.
pub(crate) fn print_stmts(kernel: &Kernel, stmts: &[StmtId]) -> String {
    let mut printer = Printer { kernel, names: Names::new(kernel), out: String::new(), indent: 0 };
    for &s in stmts {
        printer.stmt(kernel.stmts.get(s)).expect("writing to a string does not fail");
        printer.out.push('\n');
    }
    printer.out
}

/// Unique names for buffers, registers and variables.
struct Names {
    buffers: Vec<String>,
    locals: Vec<String>,
    vars: Vec<String>,
}

impl Names {
    fn new(kernel: &Kernel) -> Names {
        let mut used: HashSet<String> = HashSet::new();
        let mut unique = |name: Symbol| {
            let mut base: String =
                name.as_str().chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
            if base.is_empty() || base.starts_with(|c: char| c.is_ascii_digit()) || is_reserved(&base) {
                base.insert(0, 'v');
            }
            let mut name = base.clone();
            let mut n = 0;
            while !used.insert(name.clone()) {
                n += 1;
                name = format!("{base}_{n}");
            }
            name
        };
        let buffers = kernel.buffers().map(|(_, b)| unique(b.name)).collect();
        let arena = &kernel.arena;
        let mut locals = vec![String::new(); arena.n_locals()];
        let mut vars = vec![String::new(); arena.n_vars()];
        // Names are given in text order, so that they don't depend on how many variables passes left behind.
        kernel.for_each_stmt(kernel.body, &mut |_, stmt| match stmt {
            Stmt::For(For { var, .. }) | Stmt::Let { var, .. } => vars[var.index()] = unique(arena.var(var).name),
            Stmt::Set { local, .. } if locals[local.index()].is_empty() => {
                locals[local.index()] = unique(arena.local(local).name);
            }
            Stmt::Set { .. } | Stmt::If { .. } | Stmt::While { .. } | Stmt::Store { .. } | Stmt::Check { .. } => {}
        });
        Names { buffers, locals, vars }
    }
}

/// Words with another meaning where a name may stand.
fn is_reserved(name: &str) -> bool {
    const WORDS: &[&str] =
        &["for", "if", "let", "while", "check", "in", "else", "register", "scratch", "true", "false"];
    WORDS.contains(&name)
}

struct Printer<'a> {
    kernel: &'a Kernel,
    names: Names,
    out: String,
    indent: usize,
}

impl Printer<'_> {
    fn arena(&self) -> &Arena {
        &self.kernel.arena
    }

    fn line(&mut self) {
        for _ in 0..self.indent {
            self.out.push_str("  ");
        }
    }

    fn kernel(&mut self) -> fmt::Result {
        let kernel = self.kernel;
        write!(self.out, "kernel @{}(", kernel.name)?;
        for (id, b) in kernel.buffers().filter(|(_, b)| b.is_param()) {
            if id.index() > 0 {
                self.out.push_str(", ");
            }
            let access = match b.storage {
                Storage::Param(Access::In) => "in",
                Storage::Param(Access::Out) => "out",
                Storage::Param(Access::InOut) => "inout",
                Storage::Scratch(_) => unreachable!("only parameters are listed"),
            };
            write!(self.out, "{}: {access} {}[{}]", self.names.buffers[id.index()], b.dtype, b.len)?;
        }
        self.out.push_str(") {\n");
        for (id, b) in kernel.buffers() {
            let Storage::Scratch(placement) = b.storage else { continue };
            write!(self.out, "  scratch {}: {}[{}]", self.names.buffers[id.index()], b.dtype, b.len)?;
            self.out.push_str(match placement {
                Placement::Shared => "\n",
                Placement::PerWorker => " per_worker\n",
            });
        }
        for l in 0..self.names.locals.len() {
            if !self.names.locals[l].is_empty() {
                let ty = self.arena().local(LocalId(l as u32)).ty;
                writeln!(self.out, "  register {}: {ty}", self.names.locals[l])?;
            }
        }
        self.body(kernel.body)?;
        self.out.push_str("}\n");
        Ok(())
    }

    fn body(&mut self, body: Body) -> fmt::Result {
        for i in 0..body.len() {
            let stmt = self.kernel.stmts.get(self.kernel.stmts.list(body)[i]);
            self.line();
            self.stmt(stmt)?;
            self.out.push('\n');
        }
        Ok(())
    }

    fn block(&mut self, body: Body) -> fmt::Result {
        self.out.push_str("{\n");
        self.indent += 1;
        self.body(body)?;
        self.indent -= 1;
        self.line();
        self.out.push('}');
        Ok(())
    }

    fn stmt(&mut self, stmt: Stmt) -> fmt::Result {
        match stmt {
            Stmt::For(l) => {
                write!(self.out, "for {} in ", self.names.vars[l.var.index()])?;
                self.expr(l.extent, 0)?;
                self.out.push_str(match l.kind {
                    LoopKind::Serial => "",
                    LoopKind::Parallel => " parallel",
                    LoopKind::Vector => " vector",
                    LoopKind::Unroll => " unroll",
                });
                self.out.push_str(match l.iterations {
                    Iterations::Unknown => "",
                    Iterations::Independent => " independent",
                    Iterations::Reduction => " reduction",
                });
                let Hints { unroll, stream } = l.hints;
                if unroll != 0 {
                    write!(self.out, " hint unroll {unroll}")?;
                }
                if stream {
                    self.out.push_str(" hint stream");
                }
                self.out.push(' ');
                self.block(l.body)
            }
            Stmt::While { running, body } => {
                write!(self.out, "while {} ", self.names.locals[running.index()])?;
                self.block(body)
            }
            Stmt::If { condition, then, otherwise } => {
                self.out.push_str("if ");
                self.expr(condition, 0)?;
                self.out.push(' ');
                self.block(then)?;
                if !otherwise.is_empty() {
                    self.out.push_str(" else ");
                    self.block(otherwise)?;
                }
                Ok(())
            }
            Stmt::Store { buffer, index, value } => {
                self.element(buffer, index, 1)?;
                self.out.push_str(" = ");
                self.expr(value, 0)
            }
            Stmt::Let { var, value } => {
                let ty = self.arena().var(var).ty;
                write!(self.out, "let {}: {ty} = ", self.names.vars[var.index()])?;
                self.expr(value, 0)
            }
            Stmt::Set { local, value } => {
                write!(self.out, "{} = ", self.names.locals[local.index()])?;
                self.expr(value, 0)
            }
            Stmt::Check { condition, failure } => {
                self.out.push_str("check ");
                self.expr(condition, 0)?;
                match failure {
                    Failure::OutOfBounds { buffer } => {
                        write!(self.out, " else out_of_bounds({})", self.names.buffers[buffer.index()])
                    }
                    Failure::Division => write!(self.out, " else division"),
                    Failure::Assertion { index } => write!(self.out, " else assertion({index})"),
                }
            }
        }
    }

    fn element(&mut self, buffer: BufferId, index: ExprId, lanes: u16) -> fmt::Result {
        write!(self.out, "{}[", self.names.buffers[buffer.index()])?;
        self.expr(index, 0)?;
        if lanes > 1 {
            write!(self.out, "; {lanes}")?;
        }
        self.out.push(']');
        Ok(())
    }

    fn var(&mut self, v: VarId) {
        match self.names.vars[v.index()].as_str() {
            "" => write!(self.out, "<unbound {}>", v.index()).expect("writing to a string does not fail"),
            name => self.out.push_str(name),
        }
    }

    /// Writes `e`, in parentheses if its precedence is below `level`.
    fn expr(&mut self, e: ExprId, level: u8) -> fmt::Result {
        let arena = &self.kernel.arena;
        let ty = arena.ty(e);
        match arena.expr(e) {
            Expr::Int(v) => match ty.dtype {
                DType::Int64 => write!(self.out, "{v}"),
                DType::Bool => write!(self.out, "{}", v != 0),
                DType::UInt64 => write!(self.out, "uint64({})", v as u64),
                dtype => write!(self.out, "{dtype}({v})"),
            },
            Expr::Float(bits) => {
                let v = f64::from_bits(bits);
                match ty.dtype {
                    DType::Float32 if v.is_finite() => write!(self.out, "{:?}", v as f32),
                    dtype => write!(self.out, "{dtype}({v:?})"),
                }
            }
            Expr::Var(v) => {
                self.var(v);
                Ok(())
            }
            Expr::Local(l) => match self.names.locals[l.index()].as_str() {
                "" => write!(self.out, "<unset {}>", l.index()),
                name => write!(self.out, "{name}"),
            },
            Expr::Binary(op, a, b) => match binary_token(op) {
                None => {
                    self.out.push_str(binary_name(op));
                    self.args(&[a, b])
                }
                Some((token, own)) => self.parenthesized(own < level, |p| {
                    p.expr(a, own)?;
                    match (op, arena.expr(b)) {
                        (BinOp::Add, Expr::Int(v)) if v < 0 && v != i64::MIN && ty.dtype == DType::Int64 => {
                            write!(p.out, " - {}", -v)
                        }
                        _ => {
                            write!(p.out, " {token} ")?;
                            p.expr(b, own + 1)
                        }
                    }
                }),
            },
            Expr::Compare(op, a, b) => self.parenthesized(3 < level, |p| {
                p.expr(a, 4)?;
                write!(p.out, " {} ", op.token())?;
                p.expr(b, 4)
            }),
            Expr::Not(a) => {
                self.out.push('!');
                self.expr(a, 7)
            }
            Expr::Cast(a) => {
                write!(self.out, "cast({}, ", ty.dtype)?;
                self.expr(a, 0)?;
                self.out.push(')');
                Ok(())
            }
            Expr::Reinterpret(a) => {
                write!(self.out, "reinterpret({}, ", ty.dtype)?;
                self.expr(a, 0)?;
                self.out.push(')');
                Ok(())
            }
            Expr::Select(c, t, o) => {
                self.out.push_str("select");
                self.args(&[c, t, o])
            }
            Expr::IfThenElse(c, t, o) => {
                self.out.push_str("if_then_else");
                self.args(&[c, t, o])
            }
            Expr::Dot4(acc, a, b) => {
                self.out.push_str("dot4");
                self.args(&[acc, a, b])
            }
            // A vector of indices tells how many elements there are.
            Expr::Load(buffer, index) => {
                let lanes = if arena.lanes(index) > 1 { 1 } else { ty.lanes };
                self.element(buffer, index, lanes)
            }
            Expr::Call(function, list) => {
                self.out.push_str(function.name());
                self.args(arena.list(list))
            }
            Expr::Broadcast(a) => {
                self.out.push_str("splat(");
                self.expr(a, 0)?;
                write!(self.out, ", {})", ty.lanes)
            }
            Expr::Ramp(base, stride) => {
                self.out.push_str("ramp(");
                self.expr(base, 0)?;
                write!(self.out, ", {stride}, {})", ty.lanes)
            }
            Expr::Pack(list) => {
                self.out.push_str("pack");
                self.args(arena.list(list))
            }
            Expr::Lookup(index, table) => {
                self.out.push_str("lookup(");
                self.expr(index, 0)?;
                for &c in arena.list(table) {
                    self.out.push_str(", ");
                    self.expr(c, 0)?;
                }
                self.out.push(')');
                Ok(())
            }
            Expr::Extract(a, lane) => {
                self.out.push_str("extract(");
                self.expr(a, 0)?;
                write!(self.out, ", {lane})")
            }
            Expr::Reduce(op, a) => {
                write!(self.out, "reduce({}, ", binary_name(op))?;
                self.expr(a, 0)?;
                self.out.push(')');
                Ok(())
            }
        }
    }

    fn args(&mut self, args: &[ExprId]) -> fmt::Result {
        self.out.push('(');
        for (i, &a) in args.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.expr(a, 0)?;
        }
        self.out.push(')');
        Ok(())
    }

    fn parenthesized(&mut self, needed: bool, f: impl FnOnce(&mut Self) -> fmt::Result) -> fmt::Result {
        if needed {
            self.out.push('(');
        }
        f(self)?;
        if needed {
            self.out.push(')');
        }
        Ok(())
    }
}

/// The infix token of an operator and its precedence, if it has a token.
pub(super) fn binary_token(op: BinOp) -> Option<(&'static str, u8)> {
    match op {
        BinOp::Or => Some(("||", 1)),
        BinOp::And => Some(("&&", 2)),
        BinOp::Add => Some(("+", 5)),
        BinOp::Sub => Some(("-", 5)),
        BinOp::Mul => Some(("*", 6)),
        BinOp::Div => Some(("/", 6)),
        BinOp::FloorDiv => Some(("//", 6)),
        BinOp::FloorMod => Some(("%", 6)),
        BinOp::Mod | BinOp::Min | BinOp::Max => None,
    }
}

/// The name of an operator as a function, and in `reduce`.
pub(super) fn binary_name(op: BinOp) -> &'static str {
    match op {
        BinOp::Add => "add",
        BinOp::Sub => "sub",
        BinOp::Mul => "mul",
        BinOp::Div => "div",
        BinOp::Mod => "mod",
        BinOp::FloorDiv => "floordiv",
        BinOp::FloorMod => "floormod",
        BinOp::Min => "min",
        BinOp::Max => "max",
        BinOp::And => "and",
        BinOp::Or => "or",
    }
}
