//! The wide-vector back end: compiles inner nests of a kernel as separate functions, with vectors wider than
//! Cranelift's.
//!
//! A *region* is a run of statements that work on vectors or count constant loops, at affine addresses or at rows
//! whose numbers it reads, and access only memory and registers of their own: it has no branch, no check, no parallel
//! loop, and no loop that polls the stop flag. [`plan`] picks regions, as large as possible, and compiles each:
//! [`build`] makes vector code over virtual registers (with [`lanes`] for conditions and functions, [`guard`] and
//! [`window`] for padding, [`transpose`], [`gather`] and [`shuffle`] for shuffles, [`scattered`] for elements at any
//! indices, [`lookup`] for rows at any indices, [`index`] for indices as values, [`long`] for 64-bit integers,
//! [`reduce`] for lanes that become one, [`words`] for elements of 16 bits alone,
//! [`even_odd`] for bfloat16 whose lanes need no order, [`shifts`] for shifts), [`prefetch`] adds prefetches,
//! [`assign`] allocates machine registers, and the target ([`target::VectorTarget`]; [`x86`]) encodes the code. Cranelift's code calls regions with a pointer to
//! their arguments. A run that some step refuses is divided; single statements that cannot be regions are compiled by
//! Cranelift.
//!
//! Regions are leaf functions without addresses, and without data except for constants behind their code.
//!
//! The loops have been optimised for vectors of this width before. Afterwards [`clif`](super::clif) emits the calls.
//! Start reading at [`plan`].

mod aligned_rows;
mod assign;
mod bounds;
mod build;
mod code;
mod constants;
mod even_odd;
mod forward;
mod gather;
mod guard;
mod index;
mod lanes;
mod long;
mod lookup;
mod narrow;
mod padded_extremes;
mod prefetch;
mod reduce;
mod reload;
mod scattered;
mod shifts;
mod shuffle;
mod strided;
mod target;
mod transpose;
mod window;
mod words;
mod x86;

use super::CodegenOptions;
use super::cost::{Costs, UNPOLLED};
use crate::codegen::facts::note_stores;
use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, DType};
use crate::loopir::rewrite::{Seen, for_each_expr, for_each_operand};
use crate::loopir::{Affine, Arena, Body, BufferId, Expr, ExprId, Kernel, LocalId, LoopKind, Stmt, StmtId, VarId};
use crate::machine::{Isa, VectorUnit};
use build::Lanes;
use code::Elem;
pub(super) use gather::MOST_READ;
pub(super) use gather::is_gather;
use hashbrown::{HashMap, HashSet};
use prefetch::OuterLoop;
pub(super) use scattered::is_scatterable;
pub(super) use target::Host;
use target::VectorTarget;
pub(super) use transpose::is_transposed_row;
use x86::X86;

/// An argument of a region, 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum RegionArg {
    /// The address of an element.
    Address {
        /// The buffer.
        buffer: BufferId,
        /// Linear index of the element.
        index: ExprId,
    },
    /// The bits of a scalar.
    Value(ExprId),
}

/// A compiled run of statements.
pub(super) struct Region {
    /// Number of statements that the region replaces.
    pub len: usize,
    /// The arguments of the region.
    pub args: Vec<RegionArg>,
    /// Machine code of a function of one pointer.
    pub bytes: Vec<u8>,
}

impl Region {
    /// The buffers that the region reads or writes.
    pub(super) fn buffers(&self) -> impl Iterator<Item = BufferId> + '_ {
        self.args.iter().filter_map(|arg| match arg {
            RegionArg::Address { buffer, .. } => Some(*buffer),
            RegionArg::Value(_) => None,
        })
    }
}

/// The regions of a kernel, by their first statement.
#[derive(Default)]
pub(super) struct Regions {
    regions: HashMap<StmtId, Region, FxBuild>,
}

impl Regions {
    /// The region that begins with this statement.
    pub(super) fn at(&self, s: StmtId) -> Option<&Region> {
        self.regions.get(&s)
    }

    /// The number of regions.
    pub(super) fn len(&self) -> usize {
        self.regions.len()
    }
}

impl std::fmt::Display for Regions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut bytes: Vec<usize> = self.regions.values().map(|r| r.bytes.len()).collect();
        bytes.sort_unstable();
        write!(f, "{} regions, bytes of code: {bytes:?}", bytes.len())
    }
}

/// Whether region code for this instruction set can run on this machine.
fn is_supported(isa: Isa) -> bool {
    isa != Isa::Portable && cfg!(all(target_arch = "x86_64", unix))
}

/// Picks the regions of a kernel whose loops have been optimised for the instruction set, for this machine.
pub(super) fn plan(kernel: &mut Kernel, options: &CodegenOptions) -> Regions {
    plan_for(kernel, options, Host::here(options.isa))
}

/// Picks the regions of a kernel whose loops have been optimised for the instruction set.
pub(super) fn plan_for(kernel: &mut Kernel, options: &CodegenOptions, host: Host) -> Regions {
    if !is_supported(options.isa) {
        return Regions::default();
    }
    let Some(target) = X86::new(options.isa, host) else { return Regions::default() };
    let costs = Costs::new(kernel, options.isa);
    let polls = costs.polls();
    let mut planner = Planner {
        kernel,
        options,
        target: &target,
        prefetching_pays: host.prefetching_pays,
        costs,
        polls,
        around: Vec::new(),
        suited: HashMap::default(),
        regions: Regions::default(),
    };
    let body = planner.kernel.body;
    planner.body(body);
    planner.regions
}

/// Minimum estimated nanoseconds of Cranelift's code for which calling a region is faster.
const CALL: f64 = 20.0;

/// Minimum number of vectors of numbers for which calling a region is faster.
const FEW_NUMBERS: usize = 4;

struct Planner<'a> {
    kernel: &'a mut Kernel,
    options: &'a CodegenOptions,
    target: &'a dyn VectorTarget,
    prefetching_pays: bool,
    costs: Costs,
    polls: HashSet<StmtId, FxBuild>,
    /// The loops around the current statements, outermost first.
    around: Vec<StmtId>,
    suited: HashMap<StmtId, bool, FxBuild>,
    regions: Regions,
}

impl Planner<'_> {
    fn body(&mut self, body: Body) {
        let list = self.kernel.stmts.list(body).to_vec();
        let mut run = Vec::new();
        for &s in &list {
            if self.is_suited(s) {
                run.push(s);
                continue;
            }
            self.run(&std::mem::take(&mut run));
            self.inside(s);
        }
        self.run(&run);
    }

    fn inside(&mut self, s: StmtId) {
        match self.kernel.stmts.get(s) {
            Stmt::For(l) => {
                self.around.push(s);
                self.body(l.body);
                self.around.pop();
            }
            Stmt::If { then, otherwise, .. } => {
                self.body(then);
                self.body(otherwise);
            }
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => {}
        }
    }

    /// Makes a region of consecutive statements, or regions of parts of them.
    fn run(&mut self, run: &[StmtId]) {
        if run.is_empty() || !self.pays(run) {
            return;
        }
        if self.is_closed(run) && self.compile(run) {
            return;
        }
        // Names that are used only after the run need not be computed in it.
        let is_name = |&s: &StmtId| matches!(self.kernel.stmts.get(s), Stmt::Let { .. });
        let n_names = run.iter().rev().take_while(|s| is_name(s)).count();
        if n_names > 0 {
            return self.run(&run[..run.len() - n_names]);
        }
        // One statement may be unsupported, or all together may need too many registers.
        match self.seam(run) {
            Some(seam) => {
                self.run(&run[..seam]);
                self.run(&run[seam..]);
            }
            None => run.iter().for_each(|&s| self.apart(s, run.len())),
        }
    }

    /// Makes a region of one of `of` statements, or regions of its parts.
    fn apart(&mut self, s: StmtId, of: usize) {
        if of == 1 || !(self.is_closed(&[s]) && self.pays(&[s]) && self.compile(&[s])) {
            self.inside(s);
        }
    }

    /// The position at which to divide a run: the one nearest to its middle that no register and no name crosses.
    fn seam(&self, run: &[StmtId]) -> Option<usize> {
        let arena = &self.kernel.arena;
        let mut first_register = HashMap::<LocalId, usize, FxBuild>::default();
        let mut named_at = HashMap::<VarId, usize, FxBuild>::default();
        let mut reach = vec![0; run.len()];
        for (i, &s) in run.iter().enumerate() {
            each(self.kernel, s, &mut |stmt| {
                mentions(arena, stmt, &mut |l| {
                    let first = *first_register.entry(l).or_insert(i);
                    reach[first] = reach[first].max(i);
                });
                if let Stmt::Let { var, .. } = stmt {
                    named_at.insert(var, i);
                }
                for_each_operand(stmt, |e| {
                    for_each_expr(arena, e, &mut |e| {
                        if let Some(&first) = arena.as_var(e).and_then(|v| named_at.get(&v)) {
                            reach[first] = reach[first].max(i);
                        }
                    });
                });
            });
        }
        let mut open = 0;
        let seams = (1..run.len()).filter(|&at| {
            open = open.max(reach[at - 1]);
            open < at
        });
        seams.min_by_key(|&at| (2 * at).abs_diff(run.len()))
    }

    fn compile(&mut self, run: &[StmtId]) -> bool {
        let Some(mut stmts) = self.outer_vectors(run) else { return false };
        stmts.extend_from_slice(run);
        let available = self.target.registers();
        // Under register pressure, values that are in memory are reloaded; if that is not enough, what is loaded or
        // assembled from loads is not shared, and the rest is reloaded.
        let only = |elem: fn(DType) -> Option<Elem>| stmts.iter().all(|&s| self.is_of(s, elem));
        let narrow = match () {
            () if only(Elem::of_bytes) => Some(Lanes::Bytes),
            () if only(Elem::of_words) => Some(Lanes::Words),
            () => None,
        };
        let keeps_lanes = even_odd::keeps_lanes(self.kernel, &stmts, self.target.vector_bytes());
        let apart = keeps_lanes.then_some(Lanes::EvenOdd);
        let lanes = narrow.into_iter().chain(apart).chain([Lanes::Wide]);
        for (lanes, shares) in lanes.flat_map(|lanes| [(lanes, true), (lanes, false)]) {
            let is_last = lanes == Lanes::Wide;
            let features = self.target.features(self.options, shares);
            let features = build::Features { lanes, ..features };
            let vector_bytes = self.target.vector_bytes();
            let Some((mut code, mut args)) = build::build(self.kernel, &stmts, vector_bytes, features) else {
                if is_last {
                    return false;
                }
                continue;
            };
            forward::forward(&mut code, &args);
            if features.cheap_shuffles {
                aligned_rows::aligned_rows(&mut code);
            }
            if features.masks && !self.options.strict_fp {
                padded_extremes::padded_extremes(&mut code);
            }
            let outer = self.outer_loops(&args);
            prefetch::prefetch(
                &mut code,
                &outer,
                self.prefetching_pays,
                usize::from(available.pointers),
                |slot, terms| {
                    args.push(self.further(args[slot as usize], terms));
                    args.len() as u32 - 1
                },
            );
            let assigned = assign::assign(&mut code, available).or_else(|| {
                // Constants need no registers if they are loaded before each use, but that may not be necessary.
                [0, assign::constants(&code)].into_iter().find_map(|spare| {
                    let mut reduced = code.clone();
                    let registers = reload::reload(&mut reduced, &args, usize::from(available.vectors) + spare)
                        .then(|| assign::assign(&mut reduced, available))??;
                    code = reduced;
                    Some(registers)
                })
            });
            let Some(registers) = assigned else { continue };
            let Some(encoded) = self.target.encode(&code, &registers) else {
                if is_last {
                    return false;
                }
                continue;
            };
            self.regions.regions.insert(run[0], Region { len: run.len(), args, bytes: encoded });
            return true;
        }
        false
    }

    /// Whether a statement computes only with types that have a lane type.
    fn is_of(&self, s: StmtId, elem: fn(DType) -> Option<Elem>) -> bool {
        let arena = &self.kernel.arena;
        let mut fits = true;
        each(self.kernel, s, &mut |stmt| match stmt {
            Stmt::Store { value, .. } | Stmt::Let { value, .. } | Stmt::Set { value, .. } => {
                values(arena, value, &mut |e| fits &= elem(arena.dtype(e)).is_some());
            }
            _ => {}
        });
        fits
    }

    /// The loops around a region, from the inside, with the steps of its arguments.
    fn outer_loops(&self, args: &[RegionArg]) -> Vec<OuterLoop> {
        let arena = &self.kernel.arena;
        let indices: Vec<Option<(Affine, i64)>> = args
            .iter()
            .map(|arg| match *arg {
                RegionArg::Address { buffer, index } => {
                    Some((Affine::of(arena, index), self.kernel.buffer(buffer).dtype.bytes() as i64))
                }
                RegionArg::Value(_) => None,
            })
            .collect();
        let loops = self.around.iter().rev().filter_map(|&s| match self.kernel.stmts.get(s) {
            Stmt::For(l) => Some(l),
            _ => None,
        });
        // Loops that were fused into one, as parallel ones are, have indices such as `fused % 16`: nearly always that advances by 1.
        let advances = |atom: ExprId, var: VarId| match arena.expr(atom) {
            Expr::Binary(BinOp::Mod | BinOp::FloorMod, a, _) => arena.as_var(a) == Some(var),
            _ => arena.as_var(atom) == Some(var),
        };
        let step = |var: VarId, of: &Option<(Affine, i64)>| {
            let (index, bytes) = of.as_ref()?;
            let term = index.terms.iter().find(|(atom, _)| advances(*atom, var))?;
            Some(term.1.saturating_mul(*bytes))
        };
        loops
            .map(|l| OuterLoop {
                extent: arena.as_int(l.extent).unwrap_or(i64::MAX),
                steps: indices.iter().map(|of| step(l.var, of).unwrap_or(0)).collect(),
            })
            .collect()
    }

    /// An address, and bytes for each iteration of loops around the current statements.
    fn further(&mut self, from: RegionArg, terms: &[(usize, i64)]) -> RegionArg {
        let RegionArg::Address { buffer, mut index } = from else { return from };
        let size = self.kernel.buffer(buffer).dtype.bytes() as i64;
        for &(outer, bytes) in terms {
            if let Stmt::For(l) = self.kernel.stmts.get(self.around[self.around.len() - 1 - outer]) {
                let arena = &mut self.kernel.arena;
                let var = arena.var_expr(l.var);
                let term = arena.mul_const(var, bytes / size);
                index = arena.add(index, term);
            }
        }
        RegionArg::Address { buffer, index }
    }

    /// The definitions before the run of vectors that it uses: scalars are passed, vectors are computed again, if that
    /// gives the same value. `None` if it may not.
    fn outer_vectors(&self, run: &[StmtId]) -> Option<Vec<StmtId>> {
        let arena = &self.kernel.arena;
        let mut needed = HashSet::<VarId, FxBuild>::default();
        let mut inside = HashSet::<VarId, FxBuild>::default();
        for &s in run {
            each(self.kernel, s, &mut |stmt| {
                if let Stmt::Let { var, .. } = stmt {
                    inside.insert(var);
                }
                for_each_operand(stmt, |e| {
                    vector_names(arena, e, &mut |v| {
                        needed.insert(v);
                    })
                });
            });
        }
        needed.retain(|v| !inside.contains(v));
        let mut found = Vec::new();
        if needed.is_empty() || self.definitions(self.kernel.body, run[0], &mut needed, &mut found) && needed.is_empty()
        {
            found.reverse();
            return Some(found);
        }
        None
    }

    /// Walks backwards from `to`, which is in the body, and collects the definitions of `needed` names that are valid
    /// there, the last one first; returns whether it was found. Names stay in `needed` if their values may have changed
    /// since, or region code does not support them.
    fn definitions(
        &self,
        body: Body,
        to: StmtId,
        needed: &mut HashSet<VarId, FxBuild>,
        found: &mut Vec<StmtId>,
    ) -> bool {
        let list = self.kernel.stmts.list(body);
        let is_inside = |&s: &StmtId| s == to || contains(self.kernel, s, to);
        let Some(at) = list.iter().position(is_inside) else { return false };
        let mut written = HashSet::<BufferId, FxBuild>::default();
        match self.kernel.stmts.get(list[at]) {
            _ if list[at] == to => {}
            Stmt::For(l) => drop(self.definitions(l.body, to, needed, found)),
            Stmt::If { then, otherwise, .. } => {
                let _ = self.definitions(then, to, needed, found) || self.definitions(otherwise, to, needed, found);
            }
            Stmt::Store { .. } | Stmt::Let { .. } | Stmt::Set { .. } | Stmt::Check { .. } | Stmt::While { .. } => {}
        }
        if list[at] != to {
            // Statements after `to` in a loop precede it in the next iteration.
            note_stores(self.kernel, list[at], &mut written);
        }
        for &s in list[..at].iter().rev() {
            if let Stmt::Let { var, value } = self.kernel.stmts.get(s)
                && needed.contains(&var)
            {
                let arena = &self.kernel.arena;
                let mut same = self.is_vector_code(value);
                for_each_expr(arena, value, &mut |e| match arena.expr(e) {
                    Expr::Load(buffer, _) => same &= !written.contains(&buffer),
                    Expr::Local(_) => same = false,
                    _ => {}
                });
                if same {
                    needed.remove(&var);
                    vector_names(arena, value, &mut |v| {
                        needed.insert(v);
                    });
                    found.push(s);
                }
            }
            note_stores(self.kernel, s, &mut written);
        }
        true
    }

    /// Whether the work justifies a call. Outside a region, it would take longer by the ratio of the vector widths.
    fn pays(&self, run: &[StmtId]) -> bool {
        let narrower = self.target.vector_bytes() as f64 / VectorUnit::here(Isa::Portable).bytes as f64;
        let is_numbers = |&&s: &&StmtId| match self.kernel.stmts.get(s) {
            Stmt::Store { value, .. } => constants::is_numbers(&self.kernel.arena, value),
            _ => false,
        };
        // Cranelift would make each number of a table by itself.
        let fills_table = run.iter().filter(is_numbers).count() >= FEW_NUMBERS;
        fills_table
            || run.iter().any(|&s| match self.kernel.stmts.get(s) {
                Stmt::For(_) => self.costs.of(s).total * narrower > CALL,
                // Cranelift would split a transposed square, windows, gathers and other shuffles into lanes.
                Stmt::Store { value, .. } => {
                    let arena = &self.kernel.arena;
                    transpose::row_of(arena, value).is_some()
                        || transpose::copied_row(arena, value).is_some()
                        || window::has_windows(arena, value)
                        || gather::has_gathers(arena, value)
                        || shuffle::lanes_of(arena, value).is_some()
                }
                Stmt::Set { value, .. } | Stmt::Let { value, .. } => window::has_windows(&self.kernel.arena, value),
                Stmt::If { .. } | Stmt::Check { .. } | Stmt::While { .. } => false,
            })
    }

    /// Whether no register and no name crosses the boundary of the run.
    fn is_closed(&self, run: &[StmtId]) -> bool {
        let arena = &self.kernel.arena;
        let mut registers = HashSet::<LocalId, FxBuild>::default();
        let mut names = HashSet::<VarId, FxBuild>::default();
        for &s in run {
            each(self.kernel, s, &mut |stmt| {
                if let Stmt::Let { var, .. } = stmt {
                    names.insert(var);
                }
                mentions(arena, stmt, &mut |l| {
                    registers.insert(l);
                });
            });
        }
        let mut is_closed = true;
        let inside: HashSet<StmtId, FxBuild> = run.iter().copied().collect();
        each_outside(self.kernel, self.kernel.body, &inside, &mut |stmt| {
            mentions(arena, stmt, &mut |l| is_closed &= !registers.contains(&l));
            for_each_operand(stmt, |e| {
                for_each_expr(arena, e, &mut |e| is_closed &= arena.as_var(e).is_none_or(|v| !names.contains(&v)));
            });
        });
        is_closed
    }

    /// Whether the statement could be part of a region.
    fn is_suited(&mut self, s: StmtId) -> bool {
        if let Some(&known) = self.suited.get(&s) {
            return known;
        }
        let stmt = self.kernel.stmts.get(s);
        let suited = match stmt {
            Stmt::For(l) => {
                matches!(l.kind, LoopKind::Serial | LoopKind::Unroll | LoopKind::Vector)
                    && self.kernel.arena.as_int(l.extent).is_some_and(|n| n > 0)
                    && !self.polls.contains(&s)
                    && self.costs.of(s).total <= UNPOLLED
                    && self.kernel.stmts.list(l.body).to_vec().into_iter().all(|s| self.is_suited(s))
            }
            Stmt::If { .. } | Stmt::Check { .. } | Stmt::While { .. } => false,
            Stmt::Store { value, .. } => self.is_vector_code(stored(&self.kernel.arena, value)),
            Stmt::Let { value, .. } | Stmt::Set { value, .. } => self.is_vector_code(value),
        };
        self.suited.insert(s, suited);
        suited
    }

    fn is_vector_code(&self, e: ExprId) -> bool {
        let arena = &self.kernel.arena;
        let mut fine = true;
        let strict = self.options.strict_fp;
        values(arena, e, &mut |e| {
            fine &= match arena.dtype(e) {
                DType::Bool => lanes::is_condition(arena, e),
                // Each operation on strict floats would have to round its result.
                DType::Float16 | DType::BFloat16 if strict => {
                    matches!(arena.expr(e), Expr::Float(_) | Expr::Load(..) | Expr::Broadcast(_) | Expr::Cast(_))
                }
                dtype => Elem::of(dtype).is_some(),
            };
            fine = fine
                && match arena.expr(e) {
                    Expr::Int(_)
                    | Expr::Float(_)
                    | Expr::Var(_)
                    | Expr::Local(_)
                    | Expr::Binary(..)
                    | Expr::Load(..)
                    | Expr::Broadcast(_)
                    | Expr::Reduce(..) => true,
                    Expr::Call(..) => lanes::is_call(arena, e),
                    Expr::Compare(..) | Expr::Not(_) | Expr::Select(..) | Expr::Dot4(..) => true,
                    Expr::Reinterpret(a) => word(arena, e).is_some() || arena.lanes(a) == arena.lanes(e),
                    Expr::Cast(a) => index::is_index(arena, e) || narrow::is_conversion(arena.dtype(a), arena.dtype(e)),
                    Expr::Pack(_) => {
                        transpose::row_of(arena, e).is_some()
                            || reduce::rows_of(arena, e).is_some()
                            || gather::is_gather(arena, e)
                            || constants::is_numbers(arena, e)
                            || shuffle::lanes_of(arena, e).is_some()
                    }
                    Expr::Lookup(..) => lanes::is_lookup(arena, e, self.options.isa),
                    Expr::IfThenElse(..) => guard::is_guarded(arena, e),
                    Expr::Ramp(..) | Expr::Extract(..) => false,
                };
        });
        fine
    }
}

/// Calls `f` with each subexpression that becomes code of its own, once.
fn values(arena: &Arena, e: ExprId, f: &mut impl FnMut(ExprId)) {
    fn walk(arena: &Arena, e: ExprId, seen: &mut Seen, f: &mut impl FnMut(ExprId)) {
        if !seen.insert(e) {
            return;
        }
        f(e);
        if let Some((square, _)) = transpose::row_of(arena, e) {
            // The row as a whole extracts lanes from vectors.
            square.iter().for_each(|&c| walk(arena, c, seen, f));
        } else if let Some(lanes) = shuffle::lanes_of(arena, e) {
            lanes.iter().for_each(|&(vector, _)| walk(arena, vector, seen, f));
        } else if let Expr::IfThenElse(c, t, o) = arena.expr(e) {
            if scattered::is_partly_scattered(arena, e) {
                walk(arena, c, seen, f);
            }
            // The condition consists of indices.
            [t, o].into_iter().for_each(|c| walk(arena, c, seen, f));
        } else if !matches!(arena.expr(e), Expr::Load(_, index) if arena.lanes(index) == 1)
            && !gather::is_gather(arena, e)
            && !index::is_index(arena, e)
            && word(arena, e).is_none()
        {
            arena.for_each_child(e, |c| walk(arena, c, seen, f));
        }
    }
    walk(arena, e, &mut Seen::default(), f);
}

/// The memory of bytes that are loaded as 32-bit lanes.
fn word(arena: &Arena, e: ExprId) -> Option<(BufferId, ExprId)> {
    let Expr::Reinterpret(bytes) = arena.expr(e) else { return None };
    let Expr::Load(buffer, index) = arena.expr(bytes) else { return None };
    (arena.dtype(e) == DType::Int32 && arena.dtype(bytes).bytes() < 4).then_some((buffer, index))
}

/// The value of a store, with 32-bit lanes instead of their bytes.
fn stored(arena: &Arena, value: ExprId) -> ExprId {
    match arena.expr(value) {
        Expr::Reinterpret(a) if arena.dtype(a) == DType::Int32 && arena.dtype(value).bytes() < 4 => a,
        _ => value,
    }
}

/// Calls `f` with the names of vectors in an expression.
fn vector_names(arena: &Arena, e: ExprId, f: &mut impl FnMut(VarId)) {
    for_each_expr(arena, e, &mut |e| {
        if let Some(v) = arena.as_var(e).filter(|_| arena.lanes(e) > 1) {
            f(v);
        }
    });
}

/// Whether a statement contains another one.
fn contains(kernel: &Kernel, outer: StmtId, inner: StmtId) -> bool {
    let mut found = false;
    for body in kernel.stmts.get(outer).bodies() {
        kernel.for_each_stmt(body, &mut |s, _| found |= s == inner);
    }
    found
}

/// Calls `f` with a statement and its substatements.
fn each(kernel: &Kernel, s: StmtId, f: &mut impl FnMut(Stmt)) {
    let stmt = kernel.stmts.get(s);
    f(stmt);
    for body in stmt.bodies() {
        kernel.for_each_stmt(body, &mut |_, stmt| f(stmt));
    }
}

/// Calls `f` with the statements of a body, and their substatements, except those in `inside`.
fn each_outside(kernel: &Kernel, body: Body, inside: &HashSet<StmtId, FxBuild>, f: &mut impl FnMut(Stmt)) {
    for &s in kernel.stmts.list(body) {
        if inside.contains(&s) {
            continue;
        }
        let stmt = kernel.stmts.get(s);
        f(stmt);
        for inner in stmt.bodies() {
            each_outside(kernel, inner, inside, f);
        }
    }
}

/// Calls `f` with each register that a statement itself reads or sets.
fn mentions(arena: &Arena, stmt: Stmt, f: &mut impl FnMut(LocalId)) {
    if let Stmt::Set { local, .. } = stmt {
        f(local);
    }
    for_each_operand(stmt, |e| {
        for_each_expr(arena, e, &mut |e| {
            if let Expr::Local(l) = arena.expr(e) {
                f(l);
            }
        });
    });
}

#[cfg(test)]
mod tests;
