//! Translates statements of the loop IR into vector code.

use super::RegionArg;
use super::code::{Class, Code, Elem, Inst, LoopId, Mem, Memory, Op1, Op2, Shift16, Stream, StreamId, VReg, Width};
use super::constants::{Constants, is_numbers};
use super::gather::{Span, is_gather};
use super::index::is_index;
use super::narrow::{exact_locals, is_narrow};
use super::reduce;
use super::shuffle::lanes_of;
use crate::codegen::facts::{Reads, ReadsOf, note_stores};
use crate::ir::expr::FxBuild;
use crate::ir::{BinOp, CmpOp, Const, DType, Intrinsic};
use crate::loopir::rewrite::mentions_var;
use crate::loopir::{Affine, Arena, Body, BufferId, Expr, ExprId, Kernel, LocalId, Stmt, StmtId, Storage, Ty, VarId};
use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

/// A value in pieces, each of which is in one register.
pub(super) type Pieces = SmallVec<[VReg; 4]>;

/// Vector code for consecutive statements, and its arguments; `None` if the statements cannot be a region.
pub(super) fn build(
    kernel: &mut Kernel,
    stmts: &[StmtId],
    vector_bytes: usize,
    features: Features,
) -> Option<(Code, Vec<RegionArg>)> {
    // Vectors are divided, and joined again, by masks.
    if features.lanes == Lanes::Words && !features.masks {
        return None;
    }
    let mut builder = Builder {
        exact: exact_locals(kernel, stmts),
        written: written(kernel, stmts),
        kernel,
        vector_bytes,
        features,
        code: Code { has_long_masks: features.lanes != Lanes::Wide, ..Code::default() },
        args: Vec::new(),
        arg_table: HashMap::default(),
        stream_table: HashMap::default(),
        loops: SmallVec::new(),
        starts: SmallVec::from_slice(&[0]),
        extents: Vec::new(),
        locals: HashMap::default(),
        vars: HashMap::default(),
        named: HashMap::default(),
        counters: HashMap::default(),
        constants: Constants::default(),
        spans: Vec::new(),
        guard: None,
        memo: HashMap::default(),
        order: Vec::new(),
        reads: ReadsOf::default(),
        uses: HashMap::default(),
    };
    builder.list(stmts)?;
    Some((builder.code, builder.args))
}

/// Optional features of the target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Features {
    /// Mask registers.
    pub masks: bool,
    /// Dot products of bytes.
    pub dots: bool,
    /// Conversion of float16.
    pub halves: bool,
    /// Rounding of float32 to bfloat16, where subnormal numbers may become zero.
    pub rounds_bf16: bool,
    /// Permutations of bytes.
    pub byte_permutes: bool,
    /// Whether shuffles of whole registers of 512 bits take less time than loads of their chunks.
    pub cheap_shuffles: bool,
    /// Minima and maxima of float16.
    pub float16: bool,
    /// The lanes of elements of less than 32 bits.
    pub lanes: Lanes,
    /// Whether loaded vectors are kept in registers for other uses, including those that gathers load.
    pub shares: bool,
}

/// The lanes that elements of less than 32 bits take in a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lanes {
    /// Lanes of 32 bits.
    Wide,
    /// Lanes of bytes: the region computes with bytes alone.
    Bytes,
    /// Vectors take lanes of 16 bits: the region computes with elements of 16 bits alone.
    Words,
    /// Lanes of 32 bits, where full registers of bfloat16 are loaded by even and odd places: the order of lanes does not matter.
    EvenOdd,
}

impl Features {
    /// Whether the region computes with bytes alone.
    pub(super) fn bytes(&self) -> bool {
        self.lanes == Lanes::Bytes
    }
}

pub(super) struct Builder<'a> {
    pub kernel: &'a mut Kernel,
    pub vector_bytes: usize,
    pub features: Features,
    pub code: Code,
    args: Vec<RegionArg>,
    /// Argument slots, by buffer and index of an address, or by value.
    arg_table: HashMap<(Option<BufferId>, ExprId), u32, FxBuild>,
    stream_table: HashMap<Stream, StreamId, FxBuild>,
    /// The running loops, outermost first.
    pub loops: SmallVec<[(VarId, LoopId); 4]>,
    /// The position in the code where the region, and iterations of each running loop begin.
    pub starts: SmallVec<[usize; 4]>,
    /// The buffers that the region writes.
    pub written: HashSet<BufferId, FxBuild>,
    /// Number of iterations of each loop.
    extents: Vec<i64>,
    locals: HashMap<LocalId, Pieces, FxBuild>,
    /// Those of bfloat16 that need no rounding.
    pub exact: HashSet<LocalId, FxBuild>,
    vars: HashMap<VarId, Pieces, FxBuild>,
    /// The values of names of integers, which may be parts of addresses.
    pub named: HashMap<VarId, ExprId, FxBuild>,
    /// The counters of loops whose values are computed with, as 32 bits in all lanes.
    pub counters: HashMap<VarId, VReg, FxBuild>,
    pub constants: Constants,
    /// The elements that gathers of the current body read.
    spans: Vec<Span>,
    /// The mask of all loads, inside a selection whose condition all lanes share.
    pub guard: Option<VReg>,
    memo: HashMap<ExprId, Pieces, FxBuild>,
    /// Keys of `memo` in the order of insertion, to remove those of a loop at its end.
    order: Vec<ExprId>,
    reads: ReadsOf,
    /// Number of uses of each load in the statements of the current body.
    uses: HashMap<ExprId, u32, FxBuild>,
}

/// The buffers that statements write.
fn written(kernel: &Kernel, stmts: &[StmtId]) -> HashSet<BufferId, FxBuild> {
    let mut written = HashSet::default();
    stmts.iter().for_each(|&s| note_stores(kernel, s, &mut written));
    written
}

/// The division of a type into registers.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub elem: Elem,
    pub width: Width,
    pub n: usize,
    /// Number of lanes of the last piece, if it does not fill its register; the other lanes are undefined.
    pub last: Option<u8>,
}

/// Whether the expression is nothing but elements of memory, with constants in their place where a condition does not hold.
fn is_loaded(arena: &Arena, e: ExprId) -> bool {
    match arena.expr(e) {
        Expr::Load(..) => true,
        Expr::Pack(_) => is_gather(arena, e),
        Expr::IfThenElse(c, ..) => arena.lanes(c) > 1,
        Expr::Select(_, t, o) => {
            let is_constant = |side| arena.as_const(side).is_some();
            (is_loaded(arena, t) || is_constant(t)) && (is_loaded(arena, o) || is_constant(o))
        }
        _ => false,
    }
}

impl Builder<'_> {
    /// The narrow type in memory of a value that takes wider lanes.
    pub(super) fn memory_of(&self, e: ExprId) -> Option<Memory> {
        if self.features.bytes() || self.is_of_words(e) { None } else { Memory::of(self.kernel.arena.dtype(e)) }
    }

    /// Whether the elements of a value are narrower in memory than in registers.
    pub(super) fn is_narrow(&self, e: ExprId) -> bool {
        self.memory_of(e).is_some()
    }

    pub(super) fn shape(&self, e: ExprId) -> Option<Shape> {
        self.shape_of(self.kernel.arena.ty(e))
    }

    /// The division of a type into registers.
    pub(super) fn shape_of(&self, ty: Ty) -> Option<Shape> {
        let elem = match self.features.lanes {
            Lanes::Bytes => Elem::of_bytes(ty.dtype)?,
            Lanes::Words if ty.lanes > 1 => Elem::of_words(ty.dtype)?,
            Lanes::Words | Lanes::Wide | Lanes::EvenOdd => Elem::of(ty.dtype)?,
        };
        if ty.lanes == 1 {
            return Some(Shape { elem, width: Width::Scalar, n: 1, last: None });
        }
        let bytes = ty.lanes as usize * elem.bytes();
        let register = bytes.next_power_of_two().min(self.vector_bytes);
        let left = bytes % register;
        if elem.bytes() < 4 {
            return self.narrow_shape(elem, bytes);
        }
        let last = if left == 0 { None } else { Some((left / elem.bytes()) as u8) };
        Some(Shape { elem, width: Width::of_bytes(register)?, n: bytes.div_ceil(register), last })
    }

    /// The division of so many bytes of elements of less than 32 bits: part of a register has a mask, which exists for
    /// registers of at least 128 bits.
    fn narrow_shape(&self, elem: Elem, bytes: usize) -> Option<Shape> {
        let register = bytes.next_power_of_two().min(self.vector_bytes);
        if bytes.is_multiple_of(register) && (register >= 8 || register == 4 && elem.bytes() == 1) {
            // Four bytes are as wide as a scalar.
            let width = if register == 4 { Width::Scalar } else { Width::of_bytes(register)? };
            return Some(Shape { elem, width, n: bytes / register, last: None });
        }
        let register = register.max(16);
        let last = u8::try_from(bytes % register / elem.bytes()).ok()?;
        let shape = Shape { elem, width: Width::of_bytes(register)?, n: bytes.div_ceil(register), last: Some(last) };
        self.features.masks.then_some(shape)
    }

    /// Loads the `i`-th piece of a value. The lanes behind the last element may have any values.
    pub(super) fn load_piece(&mut self, buffer: BufferId, at: Mem, i: usize, shape: &Shape) -> Option<VReg> {
        let Shape { elem, width, n, last } = *shape;
        let (dst, mem) = (self.fresh(), self.piece(at, i)?);
        if self.guard.is_some() {
            if elem.bytes() < 4 && !self.features.masks || self.features.bytes() && width == Width::Scalar {
                return None;
            }
            let (mask, width) = self.guard_of_lanes(shape, last.filter(|_| i + 1 == n))?;
            self.push(Inst::LoadMasked { dst, mask, mem, elem, width });
            return Some(dst);
        }
        match last.filter(|_| i + 1 == n) {
            None => self.push(Inst::Load { dst, mem, elem, width }),
            Some(lanes) => match self.unmasked_width(buffer, lanes, elem) {
                Some(width) => self.push(Inst::Load { dst, mem, elem, width }),
                None => {
                    let mask = self.first_lanes(lanes, elem);
                    self.push(Inst::LoadMasked { dst, mask, mem, elem, width });
                }
            },
        }
        Some(dst)
    }

    /// The width of a load of the first lanes of a register that needs no mask: of exactly these elements, or of scratch
    /// memory, which can be read [beyond a buffer's end](crate::codegen::scratch::READABLE_BEYOND).
    fn unmasked_width(&self, buffer: BufferId, lanes: u8, elem: Elem) -> Option<Width> {
        if let Some(exact) = exact_width(lanes, elem) {
            return Some(exact);
        }
        let is_scratch = matches!(self.kernel.buffer(buffer).storage, Storage::Scratch(_));
        let bytes = (usize::from(lanes) * elem.bytes()).next_power_of_two().max(16);
        Width::of_bytes(bytes).filter(|_| is_scratch && elem.bytes() >= 4)
    }

    pub(super) fn fresh(&mut self) -> VReg {
        self.code.fresh(Class::Vector)
    }

    pub(super) fn fresh_mask(&mut self) -> VReg {
        self.code.fresh(if self.features.masks { Class::Mask } else { Class::Vector })
    }

    pub(super) fn push(&mut self, inst: Inst) {
        self.code.insts.push(inst);
    }

    // ---- statements ----------------------------------------------------------------------------------------

    fn list(&mut self, stmts: &[StmtId]) -> Option<()> {
        let outer_uses = std::mem::take(&mut self.uses);
        let spans = self.spans_of(stmts);
        let outer_spans = std::mem::replace(&mut self.spans, spans);
        for &s in stmts {
            crate::loopir::rewrite::for_each_operand(self.kernel.stmts.get(s), |e| {
                crate::loopir::rewrite::for_each_expr(&self.kernel.arena, e, &mut |e| {
                    if matches!(self.kernel.arena.expr(e), Expr::Load(..)) {
                        *self.uses.entry(e).or_default() += 1;
                    }
                });
            });
        }
        let mut left = stmts;
        while let Some((&s, rest)) = left.split_first() {
            match self.copied_square(left) {
                Some(done) => left = &left[done..],
                None => {
                    self.stmt(s)?;
                    left = rest;
                }
            }
        }
        self.uses = outer_uses;
        self.spans = outer_spans;
        Some(())
    }

    fn stmt(&mut self, s: StmtId) -> Option<()> {
        match self.kernel.stmts.get(s) {
            Stmt::For(l) => {
                let extent = self.kernel.arena.as_int(l.extent).filter(|&n| n > 0)?;
                let id = LoopId(self.extents.len() as u32);
                self.extents.push(extent);
                self.forget_written(l.body);
                let counter = self.start_counter(&l);
                self.push(Inst::Begin { l: id, extent });
                self.loops.push((l.var, id));
                self.starts.push(self.code.insts.len());
                let scope = self.order.len();
                let list: SmallVec<[StmtId; 16]> = self.kernel.stmts.list(l.body).into();
                self.list(&list)?;
                for e in self.order.drain(scope..) {
                    self.memo.remove(&e);
                }
                self.loops.pop();
                self.starts.pop();
                if let Some(counter) = counter {
                    self.step_counter(counter)?;
                }
                self.push(Inst::End { l: id });
                self.forget_written(l.body);
                Some(())
            }
            Stmt::Store { buffer, index, value } => {
                let narrow = match self.is_of_words(value) {
                    true => None,
                    false => Memory::of(self.kernel.buffer(buffer).dtype).filter(|_| !self.features.bytes()),
                };
                let bytes = super::stored(&self.kernel.arena, value);
                let narrow = narrow.filter(|_| bytes == value);
                let value = if narrow.is_some() { self.low_bits(value) } else { bytes };
                if self.features.bytes() && self.kernel.arena.lanes(value) == 2 {
                    let pair = self.pair_of_bytes(value)?;
                    let at = self.address(buffer, index)?;
                    self.push(Inst::StoreLow { src: pair, mem: at, bytes: 2 });
                    self.forget_buffer(buffer);
                    return Some(());
                }
                let shape = self.shape(value)?;
                let pieces = match self.kernel.arena.dtype(value) {
                    DType::Bool if !self.features.bytes() => self.numbers(value, DType::Int32, &shape)?,
                    _ => self.stored_lanes(value)?,
                };
                let at = self.address(buffer, index)?;
                if let Some(memory) = narrow {
                    self.store_narrow(at, value, &pieces, memory, &shape)?;
                    self.forget_buffer(buffer);
                    return Some(());
                }
                if self.features.bytes() && self.kernel.arena.lanes(value) == 1 {
                    self.push(Inst::StoreLow { src: pieces[0], mem: at, bytes: 1 });
                    self.forget_buffer(buffer);
                    return Some(());
                }
                for (i, &src) in pieces.iter().enumerate() {
                    let mem = self.piece(at, i)?;
                    let Shape { elem, width, n, last } = shape;
                    match last.filter(|_| i + 1 == n) {
                        None => self.push(Inst::Store { src, mem, elem, width }),
                        Some(lanes) => match exact_width(lanes, elem) {
                            Some(width) => self.push(Inst::Store { src, mem, elem, width }),
                            None => {
                                let mask = self.first_lanes(lanes, elem);
                                self.push(Inst::StoreMasked { src, mask, mem, elem, width });
                            }
                        },
                    }
                }
                self.forget_buffer(buffer);
                Some(())
            }
            Stmt::Let { var, value } => {
                let is_split = self.is_of_words(value) && self.kernel.arena.dtype(value) == DType::BFloat16;
                let pieces = if is_split { self.split(value)? } else { self.expr(value)? };
                let pieces = pieces.into_iter().map(|v| self.own_copy(v)).collect();
                self.vars.insert(var, pieces);
                if self.kernel.arena.dtype(value).is_int() {
                    self.named.insert(var, value);
                }
                Some(())
            }
            Stmt::Set { local, value } => self.set(local, value),
            Stmt::If { .. } | Stmt::Check { .. } | Stmt::While { .. } => None,
        }
    }

    /// A register that begins with two bytes: constants, or copied ones. No lanes of a region are so short, but borders and the ends of
    /// rows are.
    fn pair_of_bytes(&mut self, value: ExprId) -> Option<VReg> {
        if let Some(Const::Int(byte)) = self.kernel.arena.as_const(value) {
            return Some(self.constant(u64::from(byte as u8) * 0x0101_0101, Elem::U8));
        }
        let Expr::Load(buffer, index) = self.kernel.arena.expr(value) else { return None };
        if self.kernel.arena.lanes(index) > 1 || self.guard.is_some() {
            return None;
        }
        let (mem, dst) = (self.address(buffer, index)?, self.fresh());
        self.push(Inst::LoadNarrow { dst, mask: None, mem, memory: Memory::U16, width: Width::Scalar });
        Some(dst)
    }

    /// Sets a register of the loop IR. An addition to the register itself is done in place.
    fn set(&mut self, local: LocalId, value: ExprId) -> Option<()> {
        if self.kernel.arena.dtype(value) == DType::Bool && !self.features.bytes() {
            return None;
        }
        let shape = self.shape(value)?;
        let own = self.kernel.arena.local_expr(local);
        if let Expr::Call(Intrinsic::Fma, list) = self.kernel.arena.expr(value)
            && let &[a, b, c] = self.kernel.arena.list(list)
            && c == own
            && shape.elem.bytes() >= 4
            && let Some(accs) = self.locals.get(&local).cloned()
            && !self.mentions_local(a, local)
            && !self.mentions_local(b, local)
        {
            self.accumulate(&accs, a, b, &shape)?;
        } else if let Expr::Dot4(acc, a, b) = self.kernel.arena.expr(value)
            && acc == own
            && self.features.dots
            && let Some(accs) = self.locals.get(&local).cloned()
            && !self.mentions_local(a, local)
            && !self.mentions_local(b, local)
        {
            let (a, b) = (self.expr(a)?, self.expr(b)?);
            self.add_dots(&accs, &a, &b, shape.width);
        } else if let Expr::Binary(BinOp::Add, sum, product) = self.kernel.arena.expr(value)
            && let Expr::Binary(BinOp::Mul, a, b) = self.kernel.arena.expr(product)
            && sum == own
            && let Some(accs) = self.locals.get(&local).cloned()
            && !self.mentions_local(product, local)
        {
            let Shape { elem, width, .. } = shape;
            // Half-precision floats are not computed as written here, so that one rounding of `float32` is as good as two.
            if self.is_of_words(value) {
                return None;
            }
            if elem == Elem::F32 && is_narrow(self.kernel.arena.dtype(value)) {
                self.accumulate(&accs, a, b, &shape)?;
                self.forget_local(local);
                return Some(());
            }
            let (a, b) = (self.expr(a)?, self.expr(b)?);
            // Accumulate piece by piece, so that only one product is live at a time.
            for ((&acc, &a), &b) in accs.iter().zip(&a).zip(&b) {
                let product = self.fresh();
                self.push(Inst::Binary { op: Op2::Mul, dst: product, a, b, elem, width });
                self.push(Inst::Binary { op: Op2::Add, dst: acc, a: acc, b: product, elem, width });
            }
        } else if let Expr::Binary(op, sum, other) = self.kernel.arena.expr(value)
            && sum == own
            && !self.is_narrow(value)
            && shape.elem != Elem::BF16
            && let Some(op) = self.operation(op, shape.elem)
            && let Some(accs) = self.locals.get(&local).cloned()
            && !self.mentions_local(other, local)
        {
            for (&acc, &b) in accs.iter().zip(&self.expr(other)?) {
                self.push(Inst::Binary { op, dst: acc, a: acc, b, elem: shape.elem, width: shape.width });
            }
        } else {
            let is_split = shape.elem == Elem::BF16;
            if is_split
                && let Expr::Binary(op, sum, other) = self.kernel.arena.expr(value)
                && sum == own
                && let Some(accs) = self.locals.get(&local).cloned()
                && !self.mentions_local(other, local)
            {
                let op = self.operation_on_words(op, shape.elem)?;
                for (&acc, &b) in accs.iter().zip(&self.split(other)?) {
                    self.push(Inst::Binary { op, dst: acc, a: acc, b, elem: Elem::F32, width: shape.width });
                }
                self.forget_local(local);
                return Some(());
            }
            let pieces = if is_split { self.split(value)? } else { self.expr(value)? };
            let old = self.locals.get(&local).cloned();
            let is_new = old.is_none();
            let dsts = old.unwrap_or_else(|| (0..pieces.len()).map(|_| self.fresh()).collect());
            for (&dst, &src) in dsts.iter().zip(&pieces) {
                self.push(Inst::Move { dst, src });
            }
            if is_new {
                self.locals.insert(local, dsts);
            }
        }
        self.forget_local(local);
        Some(())
    }

    /// The operation on lanes, if there is an instruction for it. Conditions are bytes 0 and 1 where all lanes are bytes.
    fn operation(&self, op: BinOp, elem: Elem) -> Option<Op2> {
        match op {
            _ if elem.bytes() == 2 => self.operation_on_words(op, elem),
            BinOp::Mul if self.features.bytes() => None,
            BinOp::And if self.features.bytes() => Some(Op2::And),
            BinOp::Or if self.features.bytes() => Some(Op2::Or),
            _ => Op2::of(op, elem),
        }
    }

    /// The register, or a copy if it may be set again.
    fn own_copy(&mut self, src: VReg) -> VReg {
        if !self.locals.values().any(|pieces| pieces.contains(&src)) {
            return src;
        }
        let dst = self.fresh();
        self.push(Inst::Move { dst, src });
        dst
    }

    fn mentions_local(&self, e: ExprId, local: LocalId) -> bool {
        let mut found = false;
        crate::loopir::rewrite::for_each_expr(&self.kernel.arena, e, &mut |e| {
            found |= self.kernel.arena.expr(e) == Expr::Local(local);
        });
        found
    }

    /// `accs += a * b`.
    fn accumulate(&mut self, accs: &[VReg], a: ExprId, b: ExprId, shape: &Shape) -> Option<()> {
        let (elem, width) = (shape.elem, shape.width);
        // A load without other uses becomes a memory operand, except that an operand of 64 bits would be read as 128. The factors of a
        // square are one register.
        let folds = width != Width::Half && a != b;
        let (a, b) = if self.is_single_load(a) && !self.is_single_load(b) { (b, a) } else { (a, b) };
        if folds
            && self.is_single_load(b)
            && let Expr::Load(buffer, index) = self.kernel.arena.expr(b)
        {
            let a = self.expr(a)?;
            let at = self.address(buffer, index)?;
            for (i, (&acc, &a)) in accs.iter().zip(&a).enumerate() {
                let width = match shape.last.filter(|_| i + 1 == shape.n) {
                    None => Some(width),
                    // As above.
                    Some(lanes) => self.unmasked_width(buffer, lanes, elem).filter(|&w| w != Width::Half),
                };
                match width {
                    Some(width) => {
                        let b = self.piece(at, i)?;
                        self.push(Inst::FmaMem { acc, a, b, elem, width });
                    }
                    None => {
                        let (b, width) = (self.load_piece(buffer, at, i, shape)?, shape.width);
                        self.push(Inst::Fma { acc, a, b, elem, width });
                    }
                }
            }
            return Some(());
        }
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        for ((&acc, &a), &b) in accs.iter().zip(&a).zip(&b) {
            self.push(Inst::Fma { acc, a, b, elem, width });
        }
        Some(())
    }

    /// `a * b + c`.
    pub(super) fn mul_add(&mut self, a: ExprId, b: ExprId, c: ExprId, shape: &Shape) -> Option<Pieces> {
        let (elem, width) = (shape.elem, shape.width);
        let sums = self.expr(c)?;
        if width != Width::Half && a != b && (self.is_single_load(a) || self.is_single_load(b)) {
            let accs: Pieces = sums.iter().map(|_| self.fresh()).collect();
            for (&dst, &src) in accs.iter().zip(&sums) {
                self.push(Inst::Move { dst, src });
            }
            self.accumulate(&accs, a, b, shape)?;
            return Some(accs);
        }
        let (a, b) = (self.expr(a)?, self.expr(b)?);
        let mut out = Pieces::new();
        for ((&a, &b), &c) in a.iter().zip(&b).zip(&sums) {
            let dst = self.fresh();
            self.push(Inst::MulAdd { dst, a, b, c, elem, width });
            out.push(dst);
        }
        Some(out)
    }

    fn is_single_load(&self, e: ExprId) -> bool {
        matches!(self.kernel.arena.expr(e), Expr::Load(_, index) if self.kernel.arena.lanes(index) == 1)
            && self.guard.is_none()
            && !is_narrow(self.kernel.arena.dtype(e))
            && (!self.features.shares || self.uses.get(&e) == Some(&1))
            && !self.memo.contains_key(&e)
    }

    // ---- memory of values ----------------------------------------------------------------------------------

    fn forget(&mut self, mut is: impl FnMut(Reads) -> bool) {
        let Builder { memo, reads, kernel, .. } = self;
        memo.retain(|&e, _| {
            let r = reads.get(&kernel.arena, e);
            r != Reads::Several && !is(r)
        });
    }

    pub(super) fn forget_buffer(&mut self, b: BufferId) {
        self.forget(|r| r == Reads::Buffer(b));
    }

    fn forget_local(&mut self, l: LocalId) {
        self.forget(|r| r == Reads::Local(l));
    }

    fn forget_written(&mut self, body: Body) {
        let mut buffers: SmallVec<[BufferId; 4]> = SmallVec::new();
        let mut locals: SmallVec<[LocalId; 16]> = SmallVec::new();
        self.kernel.for_each_stmt(body, &mut |_, stmt| match stmt {
            Stmt::Store { buffer, .. } => buffers.push(buffer),
            Stmt::Set { local, .. } => locals.push(local),
            Stmt::For(_) | Stmt::If { .. } | Stmt::Let { .. } | Stmt::Check { .. } | Stmt::While { .. } => {}
        });
        self.forget(|r| match r {
            Reads::Buffer(b) => buffers.contains(&b),
            Reads::Local(l) => locals.contains(&l),
            Reads::Nothing | Reads::Several => false,
        });
    }

    // ---- addresses -----------------------------------------------------------------------------------------

    pub(super) fn slot(&mut self, key: (Option<BufferId>, ExprId), arg: RegionArg) -> u32 {
        let Builder { arg_table, args, .. } = self;
        *arg_table.entry(key).or_insert_with(|| {
            args.push(arg);
            args.len() as u32 - 1
        })
    }

    pub(super) fn address(&mut self, buffer: BufferId, index: ExprId) -> Option<Mem> {
        let bytes = self.kernel.buffer(buffer).dtype.bytes() as i64;
        let sum = Affine::of(&self.kernel.arena, index);
        let mut outer = Affine::default();
        let mut steps: SmallVec<[(LoopId, i64); 4]> = SmallVec::new();
        let mut elements: SmallVec<[(ExprId, i64); 2]> = SmallVec::new();
        for &(atom, c) in &sum.terms {
            let own = self.kernel.arena.as_var(atom).and_then(|v| self.loops.iter().find(|l| l.0 == v));
            match own {
                Some(&(_, l)) => steps.push((l, c.checked_mul(bytes)?)),
                None => {
                    let loops = &self.loops;
                    let vars = &self.vars;
                    let inside = |v: VarId| loops.iter().any(|l| l.0 == v) || vars.contains_key(&v);
                    if mentions_var(&self.kernel.arena, atom, &mut { inside })
                        || self.reads.get(&self.kernel.arena, atom) != Reads::Nothing
                    {
                        elements.push((atom, c.checked_mul(bytes)?));
                    } else {
                        outer.add_term(atom, c);
                    }
                }
            }
        }
        steps.sort_unstable();
        let origin = outer.to_expr(&mut self.kernel.arena);
        let slot = self.slot((Some(buffer), origin), RegionArg::Address { buffer, index: origin });
        let stream = match &elements[..] {
            [] => self.stream(Stream::of_argument(slot, steps))?,
            elements => self.looked_up(slot, &steps, elements)?,
        };
        Some(Mem { stream, disp: i32::try_from(sum.constant.checked_mul(bytes)?).ok()? })
    }

    /// The register that is advanced by these steps.
    pub(super) fn stream(&mut self, stream: Stream) -> Option<StreamId> {
        if stream.steps.iter().any(|&(_, step)| i32::try_from(step).is_err()) {
            return None;
        }
        let Builder { stream_table, code, .. } = self;
        Some(*stream_table.entry(stream.clone()).or_insert_with(|| {
            code.streams.push(stream);
            StreamId(code.streams.len() as u32 - 1)
        }))
    }

    /// Number of iterations of a loop of the region.
    pub(super) fn extent(&self, l: LoopId) -> i64 {
        self.extents[l.0 as usize]
    }

    /// The loop of the region whose counter is the atom.
    pub(super) fn loop_of(&self, atom: ExprId) -> Option<LoopId> {
        let var = self.kernel.arena.as_var(atom)?;
        self.loops.iter().find(|l| l.0 == var).map(|l| l.1)
    }

    /// Whether a variable is bound in the region.
    pub(super) fn is_inside(&self, v: VarId) -> bool {
        self.loops.iter().any(|l| l.0 == v) || self.vars.contains_key(&v)
    }

    /// The state on which a value depends.
    pub(super) fn reads_of(&mut self, e: ExprId) -> Reads {
        self.reads.get(&self.kernel.arena, e)
    }

    /// The memory of the `i`-th piece.
    pub(super) fn piece(&self, at: Mem, i: usize) -> Option<Mem> {
        let disp = at.disp.checked_add(i32::try_from(i * self.vector_bytes).ok()?)?;
        Some(Mem { disp, ..at })
    }

    // ---- expressions ---------------------------------------------------------------------------------------

    pub(super) fn expr(&mut self, e: ExprId) -> Option<Pieces> {
        if let Some(known) = self.memo.get(&e) {
            return Some(known.clone());
        }
        let pieces = if self.kernel.arena.dtype(e) == DType::Bool && !self.features.bytes() {
            self.condition(e)?
        } else {
            let shape = self.shape(e)?;
            self.node(e, &shape)?
        };
        // Registers are read at their uses.
        let is_kept = match self.kernel.arena.expr(e) {
            Expr::Local(_) | Expr::Var(_) => false,
            // There are few mask registers; a comparison is one instruction.
            _ if self.kernel.arena.dtype(e) == DType::Bool => self.features.shares,
            _ => self.features.shares || !is_loaded(&self.kernel.arena, e),
        };
        if is_kept {
            self.remember(e, pieces.clone());
        }
        Some(pieces)
    }

    /// Keeps a value that is set before all statements.
    pub(super) fn keep(&mut self, e: ExprId, pieces: Pieces) {
        self.memo.insert(e, pieces);
    }

    /// Keeps a value for other uses.
    pub(super) fn remember(&mut self, e: ExprId, pieces: Pieces) {
        self.memo.insert(e, pieces);
        self.order.push(e);
    }

    fn node(&mut self, e: ExprId, shape: &Shape) -> Option<Pieces> {
        let Shape { elem, width, n, .. } = *shape;
        match self.kernel.arena.expr(e) {
            Expr::Int(_) | Expr::Float(_) => Some(SmallVec::from_elem(self.bits_of(e, elem)?, 1)),
            Expr::Var(v) => {
                if let Some(pieces) = self.vars.get(&v) {
                    return Some(pieces.clone());
                }
                // A variable from outside the region: only scalars are passed, by their bits.
                let dtype = self.kernel.arena.dtype(e);
                if width != Width::Scalar
                    || is_narrow(dtype) && !dtype.is_float()
                    || self.loops.iter().any(|l| l.0 == v)
                {
                    return None;
                }
                let slot = self.slot((None, e), RegionArg::Value(e));
                // An index may also be there with lanes of 32 bits.
                let known = self.code.prologue.iter().find_map(|i| match *i {
                    Inst::Arg { dst, slot: s, elem: of } if (s, of) == (slot, elem) => Some(dst),
                    _ => None,
                });
                if let Some(known) = known {
                    return Some(SmallVec::from_elem(known, 1));
                }
                let dst = self.fresh();
                self.code.prologue.push(Inst::Arg { dst, slot, elem });
                Some(SmallVec::from_elem(dst, 1))
            }
            Expr::Local(l) => self.locals.get(&l).cloned(),
            Expr::Load(buffer, index) => match self.memory_of(e) {
                Some(memory) => self.load_narrow(buffer, index, memory, shape),
                None => self.load(buffer, index, self.kernel.arena.lanes(e) == 1, shape),
            },
            Expr::Broadcast(a) => Some(SmallVec::from_elem(self.in_all_lanes(a, shape)?, n)),
            Expr::Binary(op, a, b) => {
                if matches!(self.features.lanes, Lanes::Wide | Lanes::EvenOdd)
                    && let Some((vectors, others)) = reduce::several(&self.kernel.arena, op, e)
                {
                    return self.reduce_with(op, &vectors, &others);
                }
                if elem.bytes() == 2 {
                    return self.binary_of_words(e, shape);
                }
                if self.features.bytes() && op == BinOp::Mul {
                    let (a, b) = (self.expr(a)?, self.expr(b)?);
                    return Some(self.products_of_bytes(&a, &b, shape));
                }
                let op = self.operation(op, elem)?;
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                let value = self.binary(op, &a, &b, elem, width);
                let dtype = self.kernel.arena.dtype(e);
                let leaves_range = self.is_narrow(e) && matches!(op, Op2::Add | Op2::Sub | Op2::Mul);
                if leaves_range && !dtype.is_float() {
                    return Some(self.wrapped(value, DType::Int32, dtype, width));
                }
                Some(value)
            }
            Expr::Call(..) if elem.bytes() == 2 && !elem.is_int() => None,
            Expr::Call(..) => self.call(e, shape),
            Expr::Cast(a) if self.features.bytes() => {
                let (from, to) = (self.kernel.arena.dtype(a), self.kernel.arena.dtype(e));
                if to == DType::Bool && from != DType::Bool { None } else { self.expr(a) }
            }
            Expr::Compare(op @ (CmpOp::Eq | CmpOp::Ne), a, b)
                if self.features.bytes() && self.kernel.arena.dtype(a) == DType::Bool =>
            {
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                let differ = self.binary(Op2::Xor, &a, &b, elem, width);
                let one = self.constant(0x0101_0101, elem);
                Some(if op == CmpOp::Ne { differ } else { self.with_all(Op2::Xor, &differ, one, shape) })
            }
            // 1 for each byte but 0.
            Expr::Compare(CmpOp::Ne, a, b)
                if self.features.bytes()
                    && self.kernel.arena.dtype(a) == DType::UInt8
                    && self.kernel.arena.is_number(b, 0) =>
            {
                let (a, one) = (self.expr(a)?, self.constant(0x0101_0101, elem));
                Some(self.with_all(Op2::Min, &a, one, shape))
            }
            Expr::Not(a) if self.features.bytes() => {
                let (a, one) = (self.expr(a)?, self.constant(0x0101_0101, elem));
                Some(self.with_all(Op2::Xor, &a, one, shape))
            }
            Expr::Select(..) | Expr::Lookup(..) if elem.bytes() < 4 => None,
            Expr::Cast(_) | Expr::Reinterpret(_) if elem.bytes() == 2 => None,
            Expr::Cast(a) => self.convert(a, self.kernel.arena.dtype(e), shape),
            Expr::Reduce(op, a) if self.features.bytes() => self.reduce_bytes(op, a),
            Expr::Reduce(op, a) if self.is_of_words(a) => self.reduce_words(op, a),
            Expr::Reduce(op, a) => {
                let value = self.reduce(op, a)?;
                let dtype = self.kernel.arena.dtype(e);
                let is_int = is_narrow(dtype) && !dtype.is_float();
                Some(if is_int { self.wrapped(value, DType::Int32, dtype, Width::Scalar) } else { value })
            }
            Expr::Reinterpret(a) => match super::word(&self.kernel.arena, e) {
                Some((buffer, index)) => self.load(buffer, index, false, shape),
                None => self.expr(a),
            },
            Expr::Dot4(acc, a, b) => self.dot4(acc, a, b, shape),
            Expr::Lookup(index, table) => self.lookup(index, table),
            Expr::Select(c, t, o) => self.select(c, t, o, shape),
            Expr::IfThenElse(..) => self.guarded(e, shape),
            Expr::Compare(..) | Expr::Not(_) | Expr::Ramp(..) | Expr::Extract(..) => None,
            Expr::Pack(_) if elem.bytes() == 1 && !self.features.byte_permutes => None,
            Expr::Pack(_) if elem.bytes() == 2 && !self.features.masks => None,
            Expr::Pack(_) if reduce::rows_of(&self.kernel.arena, e).is_some() => self.reduce_rows(e, shape),
            Expr::Pack(_) if is_gather(&self.kernel.arena, e) => self.gather(e, shape),
            Expr::Pack(_) if is_numbers(&self.kernel.arena, e) => self.numbers_of(e, shape),
            Expr::Pack(_) if lanes_of(&self.kernel.arena, e).is_some() => self.shuffled(e, shape),
            Expr::Pack(_) if elem.bytes() < 4 => None,
            Expr::Pack(_) => self.row(e, shape),
        }
    }

    /// A register with a scalar in all lanes.
    pub(super) fn in_all_lanes(&mut self, a: ExprId, shape: &Shape) -> Option<VReg> {
        let Shape { elem, width, .. } = *shape;
        if elem.bytes() == 2 {
            return match self.kernel.arena.expr(a) {
                Expr::Load(buffer, index) if self.guard.is_none() => {
                    let (mem, dst) = (self.address(buffer, index)?, self.fresh());
                    self.push(Inst::LoadAll { dst, mem, elem, width });
                    Some(dst)
                }
                _ => self.bits_of(a, elem),
            };
        }
        let a = self.unwidened(a);
        let one = match self.kernel.arena.expr(a) {
            Expr::Int(_) | Expr::Float(_) => self.bits_of(a, elem)?,
            // Arguments and indices are in every lane.
            Expr::Var(v) if !self.vars.contains_key(&v) => self.expr(a)?[0],
            Expr::Cast(_) if is_index(&self.kernel.arena, a) => self.expr(a)?[0],
            _ if self.guard.is_none() && !self.memo.contains_key(&a) && self.in_memory(a).is_some() => {
                let (buffer, index) = self.in_memory(a)?;
                let mem = self.address(buffer, index)?;
                let dst = self.fresh();
                self.push(Inst::LoadAll { dst, mem, elem, width });
                dst
            }
            Expr::Load(buffer, index) if self.repeats(a) => {
                let memory = self.memory_of(a)?;
                let mem = self.address(buffer, index)?;
                let dst = self.fresh();
                self.push(Inst::LoadAllNarrow { dst, mem, memory, width });
                dst
            }
            _ => {
                let a = self.expr(a)?[0];
                let dst = self.fresh();
                self.push(Inst::Unary { op: Op1::Broadcast, dst, a, elem, width });
                dst
            }
        };
        Some(one)
    }

    /// The pieces of a value that is not kept for other uses.
    pub(super) fn unshared(&mut self, e: ExprId) -> Option<Pieces> {
        let shape = self.shape(e)?;
        self.node(e, &shape)
    }

    /// The elements that gathers of the current body read.
    pub(super) fn shared_spans(&self) -> &[Span] {
        if self.features.shares && self.guard.is_none() { &self.spans } else { &[] }
    }

    /// A value that is already in registers.
    pub(super) fn known(&self, e: ExprId) -> Option<Pieces> {
        self.memo.get(&e).cloned()
    }

    /// The pieces of a value; intermediate results are not kept.
    pub(super) fn unkept(&mut self, e: ExprId) -> Option<Pieces> {
        let scope = self.order.len();
        let pieces = self.expr(e)?;
        for e in self.order.drain(scope..) {
            self.memo.remove(&e);
        }
        Some(pieces)
    }

    /// The memory of a value, if its representation there is the same as in registers.
    fn in_memory(&self, e: ExprId) -> Option<(BufferId, ExprId)> {
        match self.kernel.arena.expr(e) {
            Expr::Load(buffer, index) if !self.is_narrow(e) => Some((buffer, index)),
            _ => super::word(&self.kernel.arena, e),
        }
    }

    /// The 16-bit float that becomes a value of `float32`, which is the same in registers, if it can be loaded into all lanes.
    fn unwidened(&self, e: ExprId) -> ExprId {
        let arena = &self.kernel.arena;
        match arena.expr(e) {
            Expr::Cast(a)
                if arena.dtype(e) == DType::Float32
                    && arena.dtype(a).is_half()
                    && !self.memo.contains_key(&e)
                    && self.repeats(a) =>
            {
                a
            }
            _ => e,
        }
    }

    /// Whether the expression is a narrow element that can be loaded into all lanes.
    fn repeats(&self, e: ExprId) -> bool {
        let arena = &self.kernel.arena;
        let converts = arena.dtype(e) != DType::Float16 || self.features.halves;
        matches!(arena.expr(e), Expr::Load(_, index) if arena.lanes(index) == 1)
            && self.is_narrow(e)
            && arena.lanes(e) == 1
            && arena.dtype(e) != DType::Bool
            && converts
            && self.guard.is_none()
            && !self.memo.contains_key(&e)
    }

    fn load(&mut self, buffer: BufferId, index: ExprId, is_scalar: bool, shape: &Shape) -> Option<Pieces> {
        if self.kernel.arena.lanes(index) > 1 {
            return self.scattered(buffer, index, None, shape);
        }
        let at = self.address(buffer, index)?;
        if shape.elem.bytes() == 1 && is_scalar {
            // A scalar of four bytes would be read.
            let dst = self.fresh();
            self.push(Inst::LoadNarrow { dst, mask: None, mem: at, memory: Memory::U8, width: Width::Scalar });
            return self.guard.is_none().then(|| Pieces::from_elem(dst, 1));
        }
        (0..shape.n).map(|i| self.load_piece(buffer, at, i, shape)).collect()
    }

    pub(super) fn bits_of(&mut self, e: ExprId, elem: Elem) -> Option<VReg> {
        let bits = self.constant_bits(e, elem)?;
        Some(self.constant(bits, elem))
    }

    pub(super) fn binary(&mut self, op: Op2, a: &[VReg], b: &[VReg], elem: Elem, width: Width) -> Pieces {
        let mut out = Pieces::new();
        for (&a, &b) in a.iter().zip(b) {
            let dst = self.fresh();
            self.push(Inst::Binary { op, dst, a, b, elem, width });
            out.push(dst);
        }
        out
    }

    /// The low bytes of products of bytes: of those at even places and those at odd ones, as parts of 16-bit lanes.
    fn products_of_bytes(&mut self, a: &[VReg], b: &[VReg], shape: &Shape) -> Pieces {
        let Shape { elem, width, .. } = *shape;
        let (low, high) = (self.constant(0x00ff_00ff, Elem::I32), self.constant(0xff00_ff00, Elem::I32));
        let mut out = Pieces::new();
        for (&a, &b) in a.iter().zip(b) {
            // Higher bytes do not matter to the lowest byte of a product.
            let even = self.binary(Op2::MulWords, &[a], &[b], elem, width);
            let even = self.binary(Op2::And, &even, &[low], elem, width);
            let shifted = self.fresh();
            self.push(Inst::ShiftByte { dst: shifted, a, kind: Shift16::Right, width });
            let b = self.binary(Op2::And, &[b], &[high], elem, width);
            let odd = self.binary(Op2::MulWords, &[shifted], &b, elem, width);
            out.extend(self.binary(Op2::Or, &even, &odd, elem, width));
        }
        out
    }

    pub(super) fn unary(&mut self, op: Op1, a: &[VReg], elem: Elem, width: Width) -> Pieces {
        let mut out = Pieces::new();
        for &a in a {
            let dst = self.fresh();
            self.push(Inst::Unary { op, dst, a, elem, width });
            out.push(dst);
        }
        out
    }
}

/// The width that holds exactly so many lanes, if there is one.
fn exact_width(lanes: u8, elem: Elem) -> Option<Width> {
    match (lanes, elem.bytes()) {
        (1, 4..) => Some(Width::Scalar),
        (lanes, bytes) => Width::of_bytes(usize::from(lanes) * bytes).filter(|&w| w != Width::Half || bytes >= 4),
    }
}
