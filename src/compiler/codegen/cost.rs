//! A rough estimate of run times, to decide where to poll the stop flag and how many iterations of a parallel loop a
//! worker should take at once. A factor of a few is accurate enough.

use super::wide::{is_gather, is_transposed_row};
use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, Intrinsic};
use crate::loopir::rewrite::{for_each_operand, for_each_value};
use crate::loopir::{Body, Expr, ExprId, For, Kernel, LoopKind, Stmt, StmtId};
use crate::machine::{Isa, VectorUnit};
use hashbrown::{HashMap, HashSet};

/// Maximum estimated nanoseconds that a kernel may run without polling the stop flag.
pub(super) const UNPOLLED: f64 = 20_000.0;

/// Minimum estimated nanoseconds of an iteration for the cost of polling after it to be negligible.
const POLLED_ITERATION: f64 = 300.0;

/// Nanoseconds of work that a worker should take at once. Workers that are awake join a loop within some 0.7 µs, so that two
/// of them finish 4 µs of work sooner than one does.
const CHUNK: f64 = 1_000.0;

/// Nanoseconds of loads and shuffles for a register of a transposed tile.
const TRANSPOSED_ROW: f64 = 1.5;

/// Assumed number of iterations of a loop whose extent is not constant: enough for it to be polled.
const UNKNOWN_EXTENT: f64 = 1e6;

/// Estimates for the loops of a kernel.
pub(super) struct Costs {
    /// Bytes of a vector register.
    register: f64,
    has_regions: bool,
    loops: HashMap<StmtId, LoopCost, FxBuild>,
    /// The loops in text order.
    order: Vec<StmtId>,
}

/// Estimate for a loop, in nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct LoopCost {
    /// Time of one iteration.
    pub iteration: f64,
    /// Time of all iterations.
    pub total: f64,
    /// Whether an inner loop polls the stop flag.
    polled_inside: bool,
    is_parallel: bool,
}

impl LoopCost {
    fn is_polled(&self) -> bool {
        self.total > UNPOLLED && !self.polled_inside && self.iteration >= POLLED_ITERATION
    }

    /// Whether the loop must be strip-mined to poll the stop flag between strips.
    pub(super) fn needs_strip_mining(&self) -> bool {
        self.total > UNPOLLED && !self.polled_inside && self.iteration < POLLED_ITERATION
    }
}

impl Costs {
    /// Estimates for all loops of a kernel, on a machine with vectors of this instruction set.
    pub(super) fn new(kernel: &Kernel, isa: Isa) -> Costs {
        let mut costs = Costs::empty(isa);
        costs.body(kernel, kernel.body);
        costs
    }

    fn empty(isa: Isa) -> Costs {
        let vectors = VectorUnit::here(isa);
        let (register, has_regions) = (vectors.bytes as f64, vectors.has_regions());
        Costs { register, has_regions, loops: HashMap::default(), order: Vec::new() }
    }

    /// Estimated nanoseconds of all iterations of a loop.
    pub(super) fn total(kernel: &Kernel, isa: Isa, l: &For) -> f64 {
        let mut costs = Costs::empty(isa);
        let n = kernel.arena.as_int(l.extent).map_or(UNKNOWN_EXTENT, |n| n.max(0) as f64);
        costs.body(kernel, l.body).0 * n
    }

    /// Whether no loop needs to be strip-mined.
    pub(super) fn all_short_enough(&self) -> bool {
        !self.order.iter().any(|s| self.loops[s].needs_strip_mining())
    }

    /// The estimate for a loop.
    pub(super) fn of(&self, s: StmtId) -> LoopCost {
        self.loops[&s]
    }

    /// The loops that poll the stop flag after each iteration.
    pub(super) fn polls(&self) -> HashSet<StmtId, FxBuild> {
        self.order.iter().copied().filter(|s| self.loops[s].is_polled()).collect()
    }

    /// For each parallel loop, the minimum number of iterations that a worker takes at once.
    pub(super) fn grains(&self) -> HashMap<StmtId, i64, FxBuild> {
        let parallel = self.order.iter().filter(|s| self.loops[*s].is_parallel);
        parallel.map(|&s| (s, (CHUNK / self.loops[&s].iteration.max(0.1)).ceil() as i64)).collect()
    }

    /// Estimated nanoseconds, and whether anything inside polls the stop flag.
    fn body(&mut self, kernel: &Kernel, body: Body) -> (f64, bool) {
        let mut sum = 0.0;
        let mut polled = false;
        for &s in kernel.stmts.list(body) {
            let stmt = kernel.stmts.get(s);
            // Indices are ignored: most become addresses that loops increment.
            let mut add = |e| for_each_value(&kernel.arena, e, &mut |e| sum += self.expr(kernel, e));
            match stmt {
                // All rows of a tile share their loads and shuffles.
                Stmt::Store { value, .. } if self.has_regions && is_transposed_row(&kernel.arena, value) => {
                    sum += TRANSPOSED_ROW * self.registers(kernel, value)
                }
                Stmt::Store { value, .. } => add(value),
                _ => for_each_operand(stmt, add),
            }
            match stmt {
                Stmt::For(l) => {
                    self.order.push(s);
                    let (iteration, polled_inside) = self.body(kernel, l.body);
                    // Add the loop overhead.
                    let iteration = iteration + 0.5;
                    let n = kernel.arena.as_int(l.extent).map_or(UNKNOWN_EXTENT, |n| n.max(0) as f64);
                    let total = iteration * n;
                    let is_parallel = l.kind == LoopKind::Parallel;
                    let cost = LoopCost { iteration, total, polled_inside, is_parallel };
                    self.loops.insert(s, cost);
                    sum += total;
                    polled |= polled_inside || cost.is_polled();
                }
                Stmt::While { body, .. } => {
                    self.order.push(s);
                    let (iteration, _) = self.body(kernel, body);
                    // Neither its number of iterations nor that of inner loops is known, so every iteration polls.
                    let iteration = (iteration + 0.5).max(POLLED_ITERATION);
                    let cost = LoopCost { iteration, total: f64::INFINITY, polled_inside: false, is_parallel: false };
                    self.loops.insert(s, cost);
                    sum += iteration * UNKNOWN_EXTENT;
                    polled = true;
                }
                Stmt::If { then, otherwise, .. } => {
                    let (a, p) = self.body(kernel, then);
                    let (b, q) = self.body(kernel, otherwise);
                    sum += a.max(b);
                    polled |= p || q;
                }
                Stmt::Store { value, .. } => sum += 0.3 * self.registers(kernel, value),
                Stmt::Let { .. } | Stmt::Set { .. } => {}
                Stmt::Check { .. } => sum += 0.3,
            }
        }
        (sum, polled)
    }

    /// Number of vector registers for a value.
    fn registers(&self, kernel: &Kernel, e: ExprId) -> f64 {
        (kernel.arena.ty(e).bytes() as f64 / self.register).ceil()
    }

    /// Nanoseconds of one node without its operands.
    fn expr(&self, kernel: &Kernel, e: ExprId) -> f64 {
        let registers = self.registers(kernel, e);
        let arena = &kernel.arena;
        let lanes = arena.lanes(e) as f64;
        match arena.expr(e) {
            Expr::Int(_) | Expr::Float(_) | Expr::Var(_) | Expr::Local(_) | Expr::Broadcast(_) | Expr::Ramp(..) => 0.0,
            Expr::Binary(op, _, b) => match op {
                BinOp::Div | BinOp::Mod | BinOp::FloorDiv | BinOp::FloorMod => {
                    if arena.dtype(e).is_float() {
                        1.5 * registers
                    } else if arena.as_int(b).is_some_and(|d| d > 0 && (d as u64).is_power_of_two()) {
                        0.2 * lanes
                    } else {
                        6.0 * lanes
                    }
                }
                BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Min | BinOp::Max | BinOp::And | BinOp::Or => {
                    0.2 * registers
                }
            },
            Expr::Compare(..) | Expr::Not(_) | Expr::Select(..) => 0.2 * registers,
            Expr::IfThenElse(..) => 0.5,
            Expr::Reinterpret(_) => 0.0,
            Expr::Cast(_) | Expr::Lookup(..) => 0.3 * registers,
            Expr::Dot4(..) => 0.15 * registers,
            Expr::Load(_, index) if arena.lanes(index) > 1 => 0.4 * lanes,
            Expr::Load(..) => 0.15 * registers,
            // Region code assembles elements that are near to each other from few registers.
            Expr::Pack(_) if self.has_regions && is_gather(arena, e) => 0.4 * registers,
            Expr::Pack(_) => 0.4 * lanes,
            Expr::Extract(..) => 0.4,
            Expr::Reduce(_, a) => 4.0 + 0.2 * self.registers(kernel, a),
            Expr::Call(f, _) => match f {
                Intrinsic::Fma | Intrinsic::Abs | Intrinsic::Likely | Intrinsic::Assume => 0.15 * registers,
                Intrinsic::Sqrt | Intrinsic::Rsqrt => 3.0 * registers,
                Intrinsic::Floor
                | Intrinsic::Ceil
                | Intrinsic::Trunc
                | Intrinsic::Round
                | Intrinsic::NearbyInt
                | Intrinsic::CopySign
                | Intrinsic::NextAfter
                | Intrinsic::IsNan
                | Intrinsic::IsInf
                | Intrinsic::IsFinite => 0.5 * registers,
                Intrinsic::PopCount
                | Intrinsic::Clz
                | Intrinsic::BitAnd
                | Intrinsic::BitOr
                | Intrinsic::BitXor
                | Intrinsic::BitNot
                | Intrinsic::ShiftLeft
                | Intrinsic::ShiftRight => 0.3 * registers,
                Intrinsic::Exp
                | Intrinsic::Exp2
                | Intrinsic::Log
                | Intrinsic::Log2
                | Intrinsic::Sigmoid
                | Intrinsic::Exp10
                | Intrinsic::Log10
                | Intrinsic::Log1p
                | Intrinsic::Tanh
                | Intrinsic::Sin
                | Intrinsic::Cos
                | Intrinsic::Tan
                | Intrinsic::Asin
                | Intrinsic::Acos
                | Intrinsic::Atan
                | Intrinsic::Sinh
                | Intrinsic::Cosh
                | Intrinsic::Asinh
                | Intrinsic::Acosh
                | Intrinsic::Atanh
                | Intrinsic::Atan2
                | Intrinsic::Erf
                | Intrinsic::Pow
                | Intrinsic::Fmod
                | Intrinsic::Hypot => 8.0 * lanes,
            },
        }
    }
}
