//! The computational DAG of a program: one line for each tensor, as the auto-scheduler printed it.
//!
//! ```text
//! A = PLACEHOLDER [1024, 1024]
//! B = PLACEHOLDER [1024, 1024]
//! C = PLACEHOLDER [1024, 1024]
//! matmul(i, j) += (A[i, k]*B[k, j])
//! out(i, j) = (matmul[i, j] + C[i, j])
//! ```
//!
//! It shows prim_funcs whose blocks are stages: a block computes one element of a tensor, whose indices are its iteration variables.

use crate::ir::{Arena, BinOp, Block, BufferId, DType, Expr, ExprId, Func, IterKind, Stmt, StmtId, Symbol, VarId};
use std::collections::HashMap;
use std::fmt::Write;

/// The lines of the DAG.
///
/// # Errors
/// A block is no stage; the text says which and why.
pub fn dag(func: &Func) -> Result<String, String> {
    let mut blocks = Vec::new();
    for &s in &func.block(func.root).body {
        stages(func, s, &mut blocks)?;
    }
    let written: Vec<BufferId> = blocks.iter().flat_map(|b| b.writes.iter().map(|r| r.buffer)).collect();
    let mut text = String::new();
    let buffers = func.params.iter().filter_map(|p| p.buffer);
    for buffer in buffers.filter(|b| !written.contains(b)) {
        let info = func.arena.buffer(buffer);
        let printer = Printer { func, names: HashMap::new() };
        let shape: Vec<String> = func.arena.list(info.shape).iter().map(|&e| printer.extent(e)).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} = PLACEHOLDER [{}]", info.name, shape.join(", "));
    }
    for block in blocks {
        stage(func, block, &mut text).map_err(|why| format!("the block `{}` is no stage: {why}", block.name))?;
    }
    Ok(text)
}

/// The blocks in a nest of loops.
fn stages<'f>(func: &'f Func, s: StmtId, blocks: &mut Vec<&'f Block>) -> Result<(), String> {
    match func.get(s) {
        Stmt::Loop(l) => l.body.iter().try_for_each(|&inner| stages(func, inner, blocks)),
        Stmt::Block(block) => {
            blocks.push(block);
            Ok(())
        }
        _ => Err("the program has statements beside loops and blocks".to_owned()),
    }
}

fn stage(func: &Func, block: &Block, text: &mut String) -> Result<(), &'static str> {
    let arena = &func.arena;
    let mut printer = Printer { func, names: HashMap::new() };
    // Values that are computed together are variables first.
    let mut together = HashMap::new();
    for iter in &block.iters {
        let name = match arena.as_var(iter.value) {
            Some(loop_var) => arena.var(loop_var).name,
            None if arena.as_int(iter.value).is_some() => continue,
            None => return Err("an iteration variable is computed"),
        };
        printer.names.insert(iter.var, name);
    }
    let spatial: Vec<VarId> = block.iters.iter().filter(|i| i.kind == IterKind::Spatial).map(|i| i.var).collect();
    let mut body = &block.body;
    while let [s] = body[..]
        && let Stmt::Let { var, value, body: inner } = func.get(s)
    {
        together.insert(*var, *value);
        body = inner;
    }
    let several = body.len() > 1;
    for (i, &s) in body.iter().enumerate() {
        let Stmt::Store { buffer, indices, value } = *func.get(s) else {
            return Err("it has statements beside stores");
        };
        let at = arena.list(indices).to_vec();
        let is_own = at.iter().zip(&spatial).all(|(&index, &var)| arena.as_var(index) == Some(var));
        if !is_own || at.len() > spatial.len() {
            return Err("it stores at other indices than its iteration variables");
        }
        let axes: Vec<String> = at.iter().map(|&e| printer.expr(e)).collect();
        let name = if several { block.name } else { arena.buffer(buffer).name };
        let part = if several { format!(".v{i}") } else { String::new() };
        let value = arena.as_var(value).and_then(|v| together.get(&v).copied()).unwrap_or(value);
        let (operator, value) = match (block.init.is_some(), arena.expr(value)) {
            (true, Expr::Binary(op, so_far, new)) if is_element(arena, so_far, buffer) => match op {
                BinOp::Add => (" += ", new),
                BinOp::Mul => (" *= ", new),
                BinOp::Max => (" max= ", new),
                BinOp::Min => (" min= ", new),
                _ => (" = ", value),
            },
            _ => (" = ", value),
        };
        let _ = writeln!(text, "{name}({}){part}{operator}{}", axes.join(", "), printer.expr(value));
    }
    Ok(())
}

fn is_element(arena: &Arena, e: ExprId, buffer: BufferId) -> bool {
    matches!(arena.expr(e), Expr::Load(b, _) if b == buffer)
}

/// Prints expressions as TVM did at the time of the auto-scheduler.
struct Printer<'f> {
    func: &'f Func,
    /// Names of iteration variables: those of their loops.
    names: HashMap<VarId, Symbol>,
}

impl Printer<'_> {
    fn extent(&self, e: ExprId) -> String {
        match self.func.arena.as_int(e) {
            Some(n) => n.to_string(),
            None => self.expr(e),
        }
    }

    fn list(&self, all: &[ExprId]) -> String {
        let all: Vec<String> = all.iter().map(|&e| self.expr(e)).collect();
        all.join(", ")
    }

    fn expr(&self, e: ExprId) -> String {
        let arena = &self.func.arena;
        let dtype = arena.dtype(e);
        match arena.expr(e) {
            Expr::Int(v) if dtype == DType::Int32 => v.to_string(),
            Expr::Int(v) => format!("({dtype}){v}"),
            Expr::Float(bits) => {
                let suffix = match dtype {
                    DType::Float64 => "",
                    DType::Float32 => "f",
                    _ => "h",
                };
                format!("{}{suffix}", general(f64::from_bits(bits)))
            }
            Expr::Var(v) => self.names.get(&v).copied().unwrap_or(arena.var(v).name).to_string(),
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.expr(a), self.expr(b));
                match op {
                    BinOp::Add => format!("({a} + {b})"),
                    BinOp::Sub => format!("({a} - {b})"),
                    BinOp::Mul => format!("({a}*{b})"),
                    BinOp::Div => format!("({a}/{b})"),
                    BinOp::Mod => format!("({a} % {b})"),
                    BinOp::FloorDiv => format!("floordiv({a}, {b})"),
                    BinOp::FloorMod => format!("floormod({a}, {b})"),
                    BinOp::Min => format!("min({a}, {b})"),
                    BinOp::Max => format!("max({a}, {b})"),
                    BinOp::And => format!("({a} && {b})"),
                    BinOp::Or => format!("({a} || {b})"),
                }
            }
            Expr::Compare(op, a, b) => format!("({} {} {})", self.expr(a), op.token(), self.expr(b)),
            Expr::Not(a) => format!("!{}", self.expr(a)),
            Expr::Cast(a) => format!("{dtype}({})", self.expr(a)),
            Expr::Select(c, a, b) => format!("select({})", self.list(&[c, a, b])),
            Expr::IfThenElse(c, a, b) => format!("tir.if_then_else({})", self.list(&[c, a, b])),
            Expr::Load(b, indices) => format!("{}[{}]", arena.buffer(b).name, self.list(arena.list(indices))),
            Expr::Call(function, args) => format!("tir.{}({})", function.name(), self.list(arena.list(args))),
            Expr::Builtin(function, args) => format!("tir.{}({})", function.name(), self.list(arena.list(args))),
            Expr::Str(_)
            | Expr::BufferData(_)
            | Expr::Let(..)
            | Expr::Ramp(..)
            | Expr::Broadcast(_)
            | Expr::Shuffle(..) => arena.brief(e).to_string(),
        }
    }
}

/// A float with six digits, as C++ prints it: `0`, `0.111111`, `1e-05`.
fn general(v: f64) -> String {
    if v == 0.0 || !v.is_finite() {
        return format!("{v}");
    }
    let scientific = format!("{v:.5e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match (-4..6).contains(&exponent) {
        true => trimmed(&format!("{v:.*}", (5 - exponent).max(0) as usize)),
        false => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::te::{Reducer, Te};

    #[test]
    fn floats_have_six_digits() {
        for (v, text) in [(0.0, "0"), (1.0, "1"), (0.5, "0.5"), (1.0 / 9.0, "0.111111"), (1e-5, "1e-05")] {
            assert_eq!(general(v), text);
        }
        assert_eq!((general(123_456.0), general(-2.5e8)), ("123456".to_owned(), "-2.5e+08".to_owned()));
    }

    #[test]
    fn a_stage_is_a_line() {
        let mut te = Te::new();
        let (n, m) = (te.extent(4), te.extent(6));
        let a = te.placeholder("A", DType::Float32, &[n, m]);
        let sums = te.reduce("sums", &[n], &[m], Reducer::Sum, |te, i, k| te.at(a, &[i[0], k[0]]));
        let out = te.compute("out", &[n], |te, i| {
            let (x, half) = (te.at(sums, i), te.float(0.5, DType::Float32));
            te.mul(x, half)
        });
        let func = te.prim_func("f", &[a], &[out]);
        assert_eq!(
            dag(&func).as_deref(),
            Ok("A = PLACEHOLDER [4, 6]\nsums(i0) += A[i0, k]\nout(i0) = (sums[i0]*0.5f)\n")
        );
    }

    #[test]
    fn programs_of_other_forms_are_refused() {
        let mut te = Te::new();
        let n = te.extent(4);
        let a = te.placeholder("A", DType::Float32, &[n]);
        let out = te.recurrence("scan", DType::Float32, &[n], 0, |te, out, i| {
            let (x, y) = (te.at(a, i), te.at(out, i));
            te.add(x, y)
        });
        let func = te.prim_func("f", &[a], &[out]);
        assert!(dag(&func).is_err_and(|e| e.contains("`scan`") && e.contains("iteration variables")));
    }
}
