//! Emits conversions between types, scalar and vector.

use super::func::Emitter;
use super::value::{PART, Parts, Val, int_scalar, int_vector, lanes_per_part, scalar_type};
use crate::codegen::runtime::functions::{F64_TO_BF16, F64_TO_F16};
use crate::ir::DType;
use crate::loopir::Ty;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::immediates::V128Imm;
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Type, Value, types};

impl Emitter<'_, '_> {
    // ---- bits ----------------------------------------------------------------------------------------------

    /// Bitcasts to another type of the same size.
    pub(super) fn recast(&mut self, to: Type, v: Value) -> Value {
        if self.b.func.dfg.value_type(v) == to {
            return v;
        }
        // Bitcasts between vectors must state the order of lanes.
        self.b.ins().bitcast(to, MemFlagsData::new().with_endianness(Endianness::Little), v)
    }

    /// Zero of an integer or float type.
    pub(super) fn zero(&mut self, ty: Type) -> Value {
        match ty {
            types::F32 => self.b.ins().f32const(0.0),
            types::F64 => self.b.ins().f64const(0.0),
            ty if ty.is_vector() => {
                let zero = self.b.func.dfg.constants.insert(V128Imm([0; 16]).into());
                self.b.ins().vconst(ty, zero)
            }
            ty => self.b.ins().iconst(ty, 0),
        }
    }

    /// An integer constant in every lane, or as a scalar.
    pub(super) fn int_like(&mut self, ty: Type, value: i64) -> Value {
        if !ty.is_vector() {
            let bits = ty.bits();
            let value = if bits < 64 { value & ((1 << bits) - 1) } else { value };
            return self.b.ins().iconst(ty, value);
        }
        let lane = ty.lane_type().bytes() as usize;
        let mut bytes = [0; 16];
        for chunk in bytes.chunks_exact_mut(lane) {
            chunk.copy_from_slice(&value.to_le_bytes()[..lane]);
        }
        let constant = self.b.func.dfg.constants.insert(V128Imm(bytes).into());
        self.b.ins().vconst(ty, constant)
    }

    pub(super) fn icmp_ne(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().icmp(IntCC::NotEqual, a, b)
    }

    /// 1 if an integer scalar is not 0, else 0.
    pub(super) fn is_nonzero(&mut self, v: Value) -> Value {
        let zero = self.zero(self.b.func.dfg.value_type(v));
        self.icmp_ne(v, zero)
    }

    /// Selects lanes of `t` where `c` is set and of `o` elsewhere; all scalars or all vectors of one width.
    pub(super) fn choose(&mut self, c: Value, t: Value, o: Value) -> Value {
        let ty = self.b.func.dfg.value_type(t);
        if ty.is_vector() {
            let c = self.recast(ty, c);
            self.b.ins().bitselect(c, t, o)
        } else {
            self.b.ins().select(c, t, o)
        }
    }

    // ---- half precision ------------------------------------------------------------------------------------

    /// Converts half-precision numbers in the low halves of `bits`, of type `int`, to `f32`.
    pub(super) fn widen_half(&mut self, dtype: DType, bits: Value, int: Type, float: Type) -> Value {
        if dtype == DType::BFloat16 {
            let shifted = self.b.ins().ishl_imm_u(bits, 16);
            return self.recast(float, shifted);
        }
        let constant = |e: &mut Self, v| e.int_like(int, v);
        let (sign_bit, rest) = (constant(self, 0x8000), constant(self, 0x7fff));
        let sign = self.b.ins().band(bits, sign_bit);
        let sign = self.b.ins().ishl_imm_u(sign, 16);
        let magnitude = self.b.ins().band(bits, rest);
        let shifted = self.b.ins().ishl_imm_u(magnitude, 13);
        // Normal numbers: the exponent's bias grows by 112, and again for infinity and NaN.
        let bias = constant(self, 112 << 23);
        let normal = self.b.ins().iadd(shifted, bias);
        let special = self.b.ins().iadd(normal, bias);
        let first_special = constant(self, 0x7c00);
        let is_special = self.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, magnitude, first_special);
        let normal = self.choose(is_special, special, normal);
        // Subnormal numbers: build the fraction on the smallest normal number, then subtract that.
        let magic = constant(self, 113 << 23);
        let padded = self.b.ins().iadd(shifted, magic);
        let (padded, magic) = (self.recast(float, padded), self.recast(float, magic));
        let subnormal = self.b.ins().fsub(padded, magic);
        let subnormal = self.recast(int, subnormal);
        let first_normal = constant(self, 0x0400);
        let is_subnormal = self.b.ins().icmp(IntCC::SignedLessThan, magnitude, first_normal);
        let value = self.choose(is_subnormal, subnormal, normal);
        let value = self.b.ins().bor(value, sign);
        self.recast(float, value)
    }

    /// Rounds `f32` to half precision, to nearest even; the 16 bits are in the low half of an integer of type `int`.
    pub(super) fn narrow_half(&mut self, dtype: DType, v: Value, int: Type) -> Value {
        let float = self.b.func.dfg.value_type(v);
        let bits = self.recast(int, v);
        let constant = |e: &mut Self, v| e.int_like(int, v);
        let magnitude_bits = constant(self, 0x7fff_ffff);
        let magnitude = self.b.ins().band(bits, magnitude_bits);
        let infinity = constant(self, 0x7f80_0000);
        let is_nan = self.b.ins().icmp(IntCC::SignedGreaterThan, magnitude, infinity);
        let one = constant(self, 1);
        if dtype == DType::BFloat16 {
            let high = self.b.ins().ushr_imm_u(bits, 16);
            let odd = self.b.ins().band(high, one);
            let half = constant(self, 0x7fff);
            let rounding = self.b.ins().iadd(half, odd);
            let sum = self.b.ins().iadd(bits, rounding);
            let rounded = self.b.ins().ushr_imm_u(sum, 16);
            let quiet = constant(self, 0x40);
            let nan = self.b.ins().bor(high, quiet);
            return self.choose(is_nan, nan, rounded);
        }
        let sign = self.b.ins().ushr_imm_u(bits, 16);
        let sign_bit = constant(self, 0x8000);
        let sign = self.b.ins().band(sign, sign_bit);
        // Normal numbers: the bias shrinks by 112, and rounding may carry into the exponent, up to infinity.
        let odd = self.b.ins().ushr_imm_u(magnitude, 13);
        let odd = self.b.ins().band(odd, one);
        let rebias = constant(self, 0xfff - (112 << 23));
        let sum = self.b.ins().iadd(magnitude, rebias);
        let sum = self.b.ins().iadd(sum, odd);
        let normal = self.b.ins().ushr_imm_u(sum, 13);
        // Too large for a normal number.
        let overflow = constant(self, 0x4780_0000);
        let is_large = self.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, magnitude, overflow);
        let half_infinity = constant(self, 0x7c00);
        let normal = self.choose(is_large, half_infinity, normal);
        let half_nan = constant(self, 0x7e00);
        let normal = self.choose(is_nan, half_nan, normal);
        // Subnormal numbers: adding 0.5 makes the hardware round at the right bit.
        let magic = constant(self, 0x3f00_0000);
        let as_float = self.recast(float, magnitude);
        let magic_float = self.recast(float, magic);
        let padded = self.b.ins().fadd(as_float, magic_float);
        let padded = self.recast(int, padded);
        let subnormal = self.b.ins().isub(padded, magic);
        let first_normal = constant(self, 0x3880_0000);
        let is_small = self.b.ins().icmp(IntCC::SignedLessThan, magnitude, first_normal);
        let value = self.choose(is_small, subnormal, normal);
        self.b.ins().bor(value, sign)
    }

    /// Rounds `v`, computed as `f32`, to a half-precision type.
    pub(super) fn round_half(&mut self, dtype: DType, v: Value) -> Value {
        let float = self.b.func.dfg.value_type(v);
        let int = if float.is_vector() { types::I32X4 } else { types::I32 };
        let bits = self.narrow_half(dtype, v, int);
        self.widen_half(dtype, bits, int, float)
    }

    // ---- integers ------------------------------------------------------------------------------------------

    /// Extends lanes from `from` bytes to `to` bytes.
    pub(super) fn widen_ints(&mut self, parts: &[Value], lanes: u16, from: u8, to: u8, signed: bool) -> Parts {
        let mut parts = Parts::from_slice(parts);
        let mut bytes = from;
        while bytes < to {
            let n = (lanes as usize * bytes as usize * 2).div_ceil(PART);
            let mut wider = Parts::new();
            for i in 0..n {
                let source = parts[i / 2];
                wider.push(match (i % 2 == 0, signed) {
                    (true, true) => self.b.ins().swiden_low(source),
                    (false, true) => self.b.ins().swiden_high(source),
                    (true, false) => self.b.ins().uwiden_low(source),
                    (false, false) => self.b.ins().uwiden_high(source),
                });
            }
            parts = wider;
            bytes *= 2;
        }
        parts
    }

    /// Truncates lanes from `from` bytes to their low `to` bytes.
    pub(super) fn narrow_ints(&mut self, parts: &[Value], lanes: u16, from: u8, to: u8) -> Parts {
        let mut parts = Parts::from_slice(parts);
        let mut bytes = from;
        while bytes > to {
            let n = (lanes as usize * bytes as usize / 2).div_ceil(PART);
            let mut narrower = Parts::new();
            for i in 0..n {
                let low = parts[2 * i];
                let high = parts.get(2 * i + 1).copied().unwrap_or(low);
                narrower.push(if bytes == 8 {
                    // Take the even lanes of both.
                    let (low, high) = (self.recast(types::I8X16, low), self.recast(types::I8X16, high));
                    let mask = V128Imm([0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27]);
                    let mask = self.b.func.dfg.immediates.push(mask.0.to_vec().into());
                    let mixed = self.b.ins().shuffle(low, high, mask);
                    self.recast(types::I32X4, mixed)
                } else {
                    // The pack instruction saturates, so clear the upper halves first.
                    let keep = self.int_like(int_vector(bytes), (1 << (bytes * 4)) - 1);
                    let low = self.b.ins().band(low, keep);
                    let high = self.b.ins().band(high, keep);
                    self.b.ins().unarrow(low, high)
                });
            }
            parts = narrower;
            bytes /= 2;
        }
        parts
    }

    /// Changes the lane width of a mask.
    pub(super) fn mask_to(&mut self, mask: &Val, bytes: u8) -> Val {
        let lanes = mask.ty.lanes;
        let parts = match mask.lane_bytes.cmp(&bytes) {
            std::cmp::Ordering::Equal => return mask.clone(),
            std::cmp::Ordering::Less => self.widen_ints(&mask.parts, lanes, mask.lane_bytes, bytes, true),
            std::cmp::Ordering::Greater => self.narrow_ints(&mask.parts, lanes, mask.lane_bytes, bytes),
        };
        Val::mask(lanes, bytes, parts)
    }

    // ---- casts ---------------------------------------------------------------------------------------------

    /// Casts `v` to `to`.
    pub(super) fn cast(&mut self, v: &Val, to: DType) -> Val {
        if v.ty.lanes == 1 {
            let value = self.cast_scalar(v.single(), v.ty.dtype, to);
            return Val::scalar(to, value);
        }
        match self.cast_vector(v, to) {
            Some(parts) => Val::vector(v.ty.with_dtype(to), parts),
            None if to == DType::Bool => self.nonzero_mask(v),
            None => self.by_lane(v.ty.with_dtype(to), &[v], |e, args| e.cast_scalar(args[0], v.ty.dtype, to)),
        }
    }

    /// Reinterprets the bits of `v` as lanes of another type.
    pub(super) fn reinterpret(&mut self, v: &Val, ty: Ty) -> Val {
        let lane_bytes = ty.dtype.bytes() as u8;
        if v.ty.lanes == 1 && ty.lanes > 1 {
            let vector = self.vector_of(int_vector(v.lane_bytes), v.single());
            return Val::vector(ty, Parts::from_elem(self.recast(int_vector(lane_bytes), vector), 1));
        }
        if v.ty.lanes > 1 && ty.lanes == 1 {
            let vector = self.recast(int_vector(lane_bytes), v.parts[0]);
            return Val::scalar(ty.dtype, self.b.ins().extractlane(vector, 0));
        }
        let part = super::value::part_type(ty, lane_bytes);
        let parts = v.parts.iter().map(|&p| self.recast(part, p)).collect();
        Val { ty, lane_bytes, parts }
    }

    /// Dot products of four bytes, computed in 16 bits: neither the product of an unsigned and a signed byte nor the
    /// sum of two such products needs more than 17 bits, so nothing saturates.
    pub(super) fn dot4(&mut self, acc: &Val, a: &Val, b: &Val) -> Val {
        if acc.ty.lanes == 1 {
            let [x, y, z] = [acc, a, b].map(|v| self.vector_of_word(v.single()));
            let sum = self.dot4_part(x, y, z);
            return Val::scalar(DType::Int32, self.b.ins().extractlane(sum, 0));
        }
        let parts = (0..acc.parts.len()).map(|i| self.dot4_part(acc.parts[i], a.parts[i], b.parts[i])).collect();
        Val::vector(acc.ty, parts)
    }

    fn vector_of_word(&mut self, v: Value) -> Value {
        self.b.ins().scalar_to_vector(types::I32X4, v)
    }

    fn dot4_part(&mut self, acc: Value, a: Value, b: Value) -> Value {
        let [even_a, odd_a] = self.byte_halves(a, false);
        let [even_b, odd_b] = self.byte_halves(b, true);
        let even = self.pairs_of_products(even_a, even_b);
        let odd = self.pairs_of_products(odd_a, odd_b);
        let sum = self.b.ins().iadd(even, odd);
        self.b.ins().iadd(acc, sum)
    }

    /// The bytes at even and at odd positions, as 16-bit lanes. Cached, since several dot products use the same vector.
    fn byte_halves(&mut self, v: Value, signed: bool) -> [Value; 2] {
        let key = self.b.current_block().map(|block| (block, v, signed));
        if let Some(&known) = key.and_then(|key| self.byte_halves.get(&key)) {
            return known;
        }
        let words = self.recast(types::I16X8, v);
        let halves = if signed {
            let even = self.b.ins().ishl_imm_u(words, 8);
            [self.b.ins().sshr_imm_u(even, 8), self.b.ins().sshr_imm_u(words, 8)]
        } else {
            let low = self.int_like(types::I16X8, 0xff);
            [self.b.ins().band(words, low), self.b.ins().ushr_imm_u(words, 8)]
        };
        if let Some(key) = key {
            self.byte_halves.insert(key, halves);
        }
        halves
    }

    /// Products of 16-bit lanes, with adjacent pairs added: a single instruction where available.
    fn pairs_of_products(&mut self, a: Value, b: Value) -> Value {
        let (a_low, b_low) = (self.b.ins().swiden_low(a), self.b.ins().swiden_low(b));
        let (a_high, b_high) = (self.b.ins().swiden_high(a), self.b.ins().swiden_high(b));
        let low = self.b.ins().imul(a_low, b_low);
        let high = self.b.ins().imul(a_high, b_high);
        self.b.ins().iadd_pairwise(low, high)
    }

    fn nonzero_mask(&mut self, v: &Val) -> Val {
        let zero = self.zero(v.part_type());
        let parts = v
            .parts
            .iter()
            .map(|&p| {
                if v.ty.dtype.is_float() {
                    self.b.ins().fcmp(FloatCC::NotEqual, p, zero)
                } else {
                    self.icmp_ne(p, zero)
                }
            })
            .collect();
        Val::mask(v.ty.lanes, v.lane_bytes, parts)
    }

    fn cast_scalar(&mut self, v: Value, from: DType, to: DType) -> Value {
        let (source, target) = (scalar_type(from), scalar_type(to));
        match (from.is_float(), to.is_float()) {
            (_, _) if to == DType::Bool => {
                let zero = self.zero(source);
                if from.is_float() { self.b.ins().fcmp(FloatCC::NotEqual, v, zero) } else { self.icmp_ne(v, zero) }
            }
            (false, false) => match source.bits().cmp(&target.bits()) {
                std::cmp::Ordering::Equal => v,
                std::cmp::Ordering::Greater => self.b.ins().ireduce(target, v),
                std::cmp::Ordering::Less if from.is_int() => self.b.ins().sextend(target, v),
                std::cmp::Ordering::Less => self.b.ins().uextend(target, v),
            },
            (false, true) => {
                let float = match from {
                    DType::UInt64 => self.b.ins().fcvt_from_uint(target, v),
                    DType::Int64 => self.b.ins().fcvt_from_sint(target, v),
                    _ => {
                        // Every narrower integer fits a signed one of 32 bits.
                        let wide = if source.bits() == 32 && from.is_int() {
                            v
                        } else if from.is_int() {
                            self.b.ins().sextend(types::I32, v)
                        } else {
                            self.b.ins().uextend(types::I64, v)
                        };
                        self.b.ins().fcvt_from_sint(target, wide)
                    }
                };
                if to.is_half() { self.round_half(to, float) } else { float }
            }
            (true, false) => match to {
                DType::UInt64 => self.b.ins().fcvt_to_uint_sat(types::I64, v),
                DType::UInt32 => self.b.ins().fcvt_to_uint_sat(types::I32, v),
                DType::Int64 => self.b.ins().fcvt_to_sint_sat(types::I64, v),
                DType::Int32 => self.b.ins().fcvt_to_sint_sat(types::I32, v),
                _ => {
                    let wide = self.b.ins().fcvt_to_sint_sat(types::I32, v);
                    let (low, high) = match (to.min_value(), to.max_value()) {
                        (Ok(low), Ok(high)) => (low, high),
                        _ => unreachable!("{to} is an integer type"),
                    };
                    let (low, high) = (self.int_like(types::I32, low), self.int_like(types::I32, high));
                    let clamped = self.b.ins().smax(wide, low);
                    let clamped = self.b.ins().smin(clamped, high);
                    self.b.ins().ireduce(int_scalar(to.bytes()), clamped)
                }
            },
            (true, true) => match (from, to) {
                (DType::Float64, DType::Float32) => self.b.ins().fdemote(types::F32, v),
                (DType::Float64, DType::Float16 | DType::BFloat16) => {
                    let f = if to == DType::Float16 { &F64_TO_F16 } else { &F64_TO_BF16 };
                    let bits = self.call_function(f, &[v], types::I32);
                    self.widen_half(to, bits, types::I32, types::F32)
                }
                (_, DType::Float64) => self.b.ins().fpromote(types::F64, v),
                (_, DType::Float16 | DType::BFloat16) => self.round_half(to, v),
                _ => v,
            },
        }
    }

    /// Vector conversions that have instructions; `None` for others.
    fn cast_vector(&mut self, v: &Val, to: DType) -> Option<Parts> {
        let (from, lanes) = (v.ty.dtype, v.ty.lanes);
        if from == DType::Bool {
            if to.is_float() {
                let ints = self.cast(v, DType::Int32);
                return Some(self.cast(&ints, to).parts);
            }
            let mask = self.mask_to(v, to.bytes() as u8);
            let one = self.int_like(int_vector(to.bytes() as u8), 1);
            return Some(mask.parts.iter().map(|&m| self.b.ins().band(m, one)).collect());
        }
        let (a, b) = (v.lane_bytes, super::value::lane_bytes(to));
        match (from.is_float(), to.is_float()) {
            _ if to == DType::Bool => None,
            (false, false) if a == b => Some(v.parts.clone()),
            (false, false) if a < b => Some(self.widen_ints(&v.parts, lanes, a, b, from.is_int())),
            (false, false) => Some(self.narrow_ints(&v.parts, lanes, a, b)),
            (false, true) if a == 8 || to == DType::Float64 && from == DType::UInt32 => None,
            (false, true) => {
                let words = self.widen_ints(&v.parts, lanes, a, 4, from.is_int());
                if to == DType::Float64 {
                    let doubles = self.widen_ints(&words, lanes, 4, 8, true);
                    return Some(doubles.iter().map(|&w| self.b.ins().fcvt_from_sint(types::F64X2, w)).collect());
                }
                let unsigned = from == DType::UInt32;
                let mut floats: Parts = words
                    .iter()
                    .map(|&w| {
                        if unsigned {
                            self.b.ins().fcvt_from_uint(types::F32X4, w)
                        } else {
                            self.b.ins().fcvt_from_sint(types::F32X4, w)
                        }
                    })
                    .collect();
                if to.is_half() {
                    floats = floats.iter().map(|&f| self.round_half(to, f)).collect();
                }
                Some(floats)
            }
            (true, false) if a == 4 && to == DType::Int32 => {
                Some(v.parts.iter().map(|&f| self.b.ins().fcvt_to_sint_sat(types::I32X4, f)).collect())
            }
            (true, false) => None,
            (true, true) => match (from, to) {
                (DType::Float64, DType::Float32) => {
                    let halves: Parts = v.parts.iter().map(|&p| self.b.ins().fvdemote(p)).collect();
                    Some(
                        halves
                            .chunks(2)
                            .map(|pair| match *pair {
                                [low, high] => self.join_low_halves(types::F32X4, low, high),
                                _ => pair[0],
                            })
                            .collect(),
                    )
                }
                (DType::Float64, _) => None,
                (_, DType::Float64) => {
                    let mut doubles = Parts::new();
                    for (i, &p) in v.parts.iter().enumerate() {
                        doubles.push(self.b.ins().fvpromote_low(p));
                        if i * lanes_per_part(4) + 2 < lanes as usize {
                            let high = self.high_half(p);
                            doubles.push(self.b.ins().fvpromote_low(high));
                        }
                    }
                    Some(doubles)
                }
                (_, DType::Float16 | DType::BFloat16) => {
                    Some(v.parts.iter().map(|&p| self.round_half(to, p)).collect())
                }
                _ => Some(v.parts.clone()),
            },
        }
    }

    fn join_low_halves(&mut self, ty: Type, low: Value, high: Value) -> Value {
        self.shuffle_bytes(ty, low, high, [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23])
    }

    fn high_half(&mut self, v: Value) -> Value {
        let ty = self.b.func.dfg.value_type(v);
        self.shuffle_bytes(ty, v, v, [8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7])
    }

    fn shuffle_bytes(&mut self, ty: Type, low: Value, high: Value, bytes: [u8; 16]) -> Value {
        let (low, high) = (self.recast(types::I8X16, low), self.recast(types::I8X16, high));
        let mask = self.b.func.dfg.immediates.push(bytes.to_vec().into());
        let mixed = self.b.ins().shuffle(low, high, mask);
        self.recast(ty, mixed)
    }

    /// Computes a vector lane by lane with scalar operations.
    pub(super) fn by_lane(&mut self, ty: Ty, args: &[&Val], mut f: impl FnMut(&mut Self, &[Value]) -> Value) -> Val {
        let mut lanes = Vec::with_capacity(ty.lanes as usize);
        for lane in 0..ty.lanes {
            let scalars: Parts = args.iter().map(|a| self.lane(a, lane)).collect();
            lanes.push(f(self, &scalars));
        }
        self.pack(ty, &lanes)
    }

    /// Extracts a lane as a scalar.
    pub(super) fn lane(&mut self, v: &Val, lane: u16) -> Value {
        if v.ty.lanes == 1 {
            return v.single();
        }
        let per_part = v.lanes_per_part();
        let (part, at) = (v.parts[lane as usize / per_part], (lane as usize % per_part) as u8);
        let value = self.b.ins().extractlane(part, at);
        if v.ty.dtype == DType::Bool { self.is_nonzero(value) } else { value }
    }

    /// Builds a vector from scalar lanes.
    pub(super) fn pack(&mut self, ty: Ty, lanes: &[Value]) -> Val {
        if ty.dtype == DType::Bool {
            let bytes = Val::vector(ty.with_dtype(DType::UInt8), self.pack_parts(types::I8X16, lanes, 16));
            return self.nonzero_mask(&bytes);
        }
        let part = super::value::part_type(ty, super::value::lane_bytes(ty.dtype));
        let parts = self.pack_parts(part, lanes, part.lane_count() as usize);
        Val::vector(ty, parts)
    }

    /// A part with a scalar in its first lane.
    pub(super) fn vector_of(&mut self, part: Type, v: Value) -> Value {
        let ty = self.b.func.dfg.value_type(v);
        if ty.is_int() && ty.bits() < 32 {
            let wide = self.b.ins().uextend(types::I32, v);
            let vector = self.b.ins().scalar_to_vector(types::I32X4, wide);
            return self.recast(part, vector);
        }
        self.b.ins().scalar_to_vector(part, v)
    }

    fn pack_parts(&mut self, part: Type, lanes: &[Value], per_part: usize) -> Parts {
        let mut parts = Parts::new();
        for chunk in lanes.chunks(per_part) {
            let mut vector = self.vector_of(part, chunk[0]);
            for (i, &v) in chunk.iter().enumerate().skip(1) {
                vector = self.b.ins().insertlane(vector, v, i as u8);
            }
            parts.push(vector);
        }
        parts
    }
}
