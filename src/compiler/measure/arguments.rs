//! The arguments of a function: aligned, seeded, and guarded.
//!
//! All buffers of a task lie in one block of memory at fixed offsets, so that a later run meets the same cache sets and
//! pages as the recorded one:
//! ```text
//! | guard | A ........ | guard | B ........ | guard | C ........ | guard |
//!         ^ 64-byte aligned, each start 9 cache lines further into its page than the one before
//! ```
//!
//! If all buffers started at the same page offset, stores to one would delay loads from another (4K aliasing: the CPU
//! first compares the low twelve bits of addresses). The guards hold a pattern that out-of-bounds writes destroy.

use super::fill;
use crate::codegen::runtime::memory::{Block, LARGE_PAGE, STOP_BYTES};
use crate::ir::interp::TensorRef;
use crate::ir::{DType, ParamLayout};
use crate::loopir::Access;
use crate::stop::StopFlag;
use std::alloc::Layout;

/// A parameter of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParamSpec {
    /// Name, for messages.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Extent of each dimension.
    pub shape: Vec<i64>,
    /// Places of its elements in memory; `None` if they are contiguous in row-major order.
    pub layout: Option<ParamLayout>,
    /// Whether it is read, written, or both.
    pub access: Access,
    /// For integers used as indices: all values are at least 0 and below this bound.
    pub below: Option<i64>,
    /// Whether it has integers that others are divided by: none is 0.
    pub is_divisor: bool,
}

impl ParamSpec {
    /// A parameter without a bound on its values.
    pub fn new(name: &str, dtype: DType, shape: &[i64], access: Access) -> ParamSpec {
        ParamSpec {
            name: name.into(),
            dtype,
            shape: shape.to_vec(),
            layout: None,
            access,
            below: None,
            is_divisor: false,
        }
    }

    /// The parameter with a layout. The gaps between elements must be preserved, so a parameter that is only written
    /// counts as read, too.
    pub fn placed(self, layout: ParamLayout) -> ParamSpec {
        if layout.is_compact() {
            return self;
        }
        let access = if self.access == Access::Out { Access::InOut } else { self.access };
        ParamSpec { access, layout: Some(layout), ..self }
    }

    /// Number of elements that its memory has room for.
    pub fn len(&self) -> usize {
        if let Some(layout) = &self.layout {
            return layout.len().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        }
        self.shape.iter().map(|&n| usize::try_from(n).unwrap_or(0)).product()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.len() * self.dtype.bytes()
    }

    /// Whether the function writes it.
    pub fn is_written(&self) -> bool {
        matches!(self.access, Access::Out | Access::InOut)
    }

    /// The indices of the element at a place in memory; `None` if no element lies there.
    pub fn indices(&self, mut element: usize) -> Option<Vec<i64>> {
        let mut indices = vec![0; self.shape.len()];
        let Some(layout) = &self.layout else {
            for (index, &extent) in indices.iter_mut().zip(&self.shape).rev() {
                let extent = extent.max(1) as usize;
                *index = (element % extent) as i64;
                element /= extent;
            }
            return Some(indices);
        };
        let mut rest = i64::try_from(element).ok()?.checked_sub(layout.offset).filter(|&r| r >= 0)?;
        let mut dims: Vec<usize> = (0..indices.len()).filter(|&d| layout.strides[d] > 0).collect();
        dims.sort_by_key(|&d| (std::cmp::Reverse(layout.strides[d]), d));
        for d in dims {
            indices[d] = (rest / layout.strides[d]).min(self.shape[d] - 1).max(0);
            rest -= indices[d] * layout.strides[d];
        }
        (rest == 0).then_some(indices)
    }
}

/// Why arguments could not be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentsError {
    /// Not enough memory for this many bytes.
    #[error("the arguments need {0} bytes of memory, more than there is")]
    Memory(u128),
    /// The stop flag was raised before they were filled.
    #[error("stopped before the arguments were filled")]
    Stopped,
}

/// Contents of outputs before a function runs.
#[derive(Clone, Copy, Debug)]
pub enum Poison<'a> {
    /// All bits set: NaN in floats, -1 in integers.
    Ones,
    /// A value that is certainly wrong for each element, which shows missing writes even where all ones would be right
    /// by chance. In floats NaN, unless NaN is expected; in integers the minimum or maximum of the type, whichever is
    /// further from the expected value, since adjacent integers may be equally right after rounding; an invalid
    /// boolean. One slice per parameter; empty for those that are not written.
    Opposite(&'a [Vec<u8>]),
}

/// Damage that a kernel did to memory that it must not write.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Damage {
    /// It wrote before or after a buffer.
    #[error("it wrote out of bounds, next to `{param}`")]
    OutOfBounds {
        /// Name of the buffer.
        param: String,
    },
    /// It changed an input.
    #[error("it changed the input `{param}`")]
    Input {
        /// Name of the input.
        param: String,
    },
    /// Unknown: the stop flag was raised before everything was inspected.
    #[error("stopped before the memory was checked")]
    Stopped,
}

/// Alignment of a buffer's first byte.
const ALIGN: usize = 64;
const PAGE: usize = 4096;
/// Minimum size of a guard between buffers.
const GUARD: usize = 256;
const GUARD_BYTE: u8 = 0xc5;
/// Maximum size of a guard: [`GUARD`], the rest of a page, and less than a page of stagger.
const MAX_GUARD: usize = GUARD + 2 * PAGE;
/// Increment of the page offset from buffer to buffer; an odd number of cache lines, so that no two of 64 buffers
/// agree.
const STAGGER: usize = 9 * ALIGN;

/// The arguments of a function.
pub struct Arguments {
    specs: Vec<ParamSpec>,
    seed: u64,
    block: Block,
    /// Offset of each buffer in the block.
    starts: Vec<usize>,
    pointers: Vec<*mut u8>,
    /// Initial contents of buffers that are both read and written; empty for others.
    originals: Vec<Vec<u8>>,
    /// Checksum of each input.
    checksums: Vec<u64>,
    /// Stops operations that pass over all of the memory.
    stop: StopFlag,
}

// SAFETY: the block is owned, and only accessed through its owner.
unsafe impl Send for Arguments {}
// SAFETY: through a shared reference the block is only read.
unsafe impl Sync for Arguments {}

impl Arguments {
    /// Allocates and fills the arguments.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(specs: &[ParamSpec], seed: u64) -> Result<Arguments, ArgumentsError> {
        Arguments::until(specs, seed, &StopFlag::new())
    }

    /// Allocates and fills the arguments, unless `stop` is raised first. Later operations that pass over all of the
    /// memory also end early once it is raised; [`Arguments::inspect`] then reports it.
    ///
    /// # Errors
    /// If there is not enough memory, or the flag was raised.
    pub fn until(specs: &[ParamSpec], seed: u64, stop: &StopFlag) -> Result<Arguments, ArgumentsError> {
        Arguments::in_block_of(specs, seed, stop, |_| None)
    }

    /// As [`Arguments::until`], in memory that `kept` has, if it has some of this layout.
    ///
    /// # Errors
    /// As [`Arguments::until`].
    pub fn in_block_of(
        specs: &[ParamSpec],
        seed: u64,
        stop: &StopFlag,
        kept: impl FnOnce(Layout) -> Option<Block>,
    ) -> Result<Arguments, ArgumentsError> {
        let mut starts = Vec::with_capacity(specs.len());
        let mut end = 0u128;
        for (i, spec) in specs.iter().enumerate() {
            // Computed in 128 bits: shapes come from the user.
            let bytes = match &spec.layout {
                Some(_) => spec.bytes() as u128,
                None => {
                    let extents = spec.shape.iter().map(|&n| n.max(0) as u128);
                    extents.fold(spec.dtype.bytes() as u128, u128::saturating_mul)
                }
            };
            let bytes = bytes.min(1 << 100);
            let page = (end + GUARD as u128).next_multiple_of(PAGE as u128);
            let start = page + (i * STAGGER % PAGE) as u128;
            starts.push(start as usize);
            end = start.saturating_add(bytes);
        }
        end = end.saturating_add(GUARD as u128);
        let fail = || ArgumentsError::Memory(end);
        let align = if end >= LARGE_PAGE as u128 { LARGE_PAGE } else { PAGE };
        let size = usize::try_from(end).ok().filter(|&n| n <= isize::MAX as usize - 2 * LARGE_PAGE).ok_or_else(fail)?;
        let layout = Layout::from_size_align(size.next_multiple_of(align), align).map_err(|_| fail())?;
        let stopped = || if stop.is_raised() { ArgumentsError::Stopped } else { fail() };
        let block = kept(layout).or_else(|| Block::zeroed(layout, stop)).ok_or_else(stopped)?;
        // SAFETY: all offsets lie within the block.
        let pointers = starts.iter().map(|&s| unsafe { block.start().as_ptr().add(s) }).collect();
        let originals = vec![Vec::new(); specs.len()];
        let checksums = vec![0; specs.len()];
        let (specs, stop) = (specs.to_vec(), stop.clone());
        let mut args = Arguments { specs, seed, block, starts, pointers, originals, checksums, stop };
        let mut guard_start = 0;
        for i in 0..=args.specs.len() {
            let guard_end = args.guard_end(i, guard_start);
            args.block_mut()[guard_start..guard_end].fill(GUARD_BYTE);
            guard_start = args.starts.get(i).map_or(0, |s| s + args.specs[i].bytes());
        }
        for i in 0..args.specs.len() {
            args.fill(i);
        }
        if args.stop.is_raised() { Err(ArgumentsError::Stopped) } else { Ok(args) }
    }

    /// End of the guard before buffer `i`, or of the inspected part of the last guard: kernels rarely stray further.
    fn guard_end(&self, i: usize, guard_start: usize) -> usize {
        self.starts.get(i).copied().unwrap_or(self.block.size()).min(guard_start + MAX_GUARD)
    }

    /// Fills a parameter that is read with random values, and one that is only written with ones.
    fn fill(&mut self, i: usize) {
        let (spec, seed, stop) = (self.specs[i].clone(), self.seed, self.stop.clone());
        match spec.access {
            Access::In => {
                fill::fill(&spec, i, seed, self.bytes_mut(i), &stop);
                self.checksums[i] = checksum(self.bytes(i), &stop);
            }
            Access::InOut => {
                fill::fill(&spec, i, seed, self.bytes_mut(i), &stop);
                self.originals[i] = copied(self.bytes(i), &stop);
            }
            Access::Out => parts(self.bytes_mut(i), &stop).for_each(|part| part.fill(0xff)),
        }
    }

    /// A copy of these arguments, for a concurrent run.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn copy(&self) -> Result<Arguments, ArgumentsError> {
        Arguments::until(&self.specs, self.seed, &self.stop)
    }

    /// The memory of the arguments, to be used again.
    pub fn into_block(self) -> Block {
        self.block
    }

    /// The parameters.
    pub fn specs(&self) -> &[ParamSpec] {
        &self.specs
    }

    /// The seed of the contents.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Total bytes of all buffers: the working set of a function that accesses all of them.
    #[cfg(test)]
    pub fn total_bytes(&self) -> usize {
        self.specs.iter().map(ParamSpec::bytes).sum()
    }

    /// The address of each buffer, in order. The addresses stay valid, and the buffers do not overlap.
    pub fn pointers(&mut self) -> &[*mut u8] {
        &self.pointers
    }

    /// The address of each buffer, in order, for kernels that only read them.
    pub fn addresses(&self) -> &[*mut u8] {
        &self.pointers
    }

    /// The bytes of a buffer.
    pub fn bytes(&self, i: usize) -> &[u8] {
        let start = self.starts[i];
        &self.block()[start..start + self.specs[i].bytes()]
    }

    /// The bytes of a buffer.
    pub fn bytes_mut(&mut self, i: usize) -> &mut [u8] {
        let (start, len) = (self.starts[i], self.specs[i].bytes());
        &mut self.block_mut()[start..start + len]
    }

    /// A buffer as an array.
    pub fn tensor(&self, i: usize) -> TensorRef<'_> {
        TensorRef { dtype: self.specs[i].dtype, shape: &self.specs[i].shape, data: self.bytes(i) }
    }

    /// Replaces the contents of a parameter, for arguments from the user.
    ///
    /// # Panics
    /// If the length differs from the buffer's.
    pub fn set(&mut self, i: usize, bytes: &[u8]) {
        self.bytes_mut(i).copy_from_slice(bytes);
        match self.specs[i].access {
            Access::In => self.checksums[i] = checksum(bytes, &self.stop),
            Access::InOut => self.originals[i] = bytes.to_vec(),
            Access::Out => {}
        }
    }

    /// Prepares a checked run: poisons outputs, and restores buffers that are both read and written.
    pub fn reset(&mut self, poison: Poison<'_>) {
        let stop = self.stop.clone();
        for i in 0..self.specs.len() {
            if self.specs[i].access == Access::Out {
                match poison {
                    Poison::Opposite(expected) if expected[i].len() == self.bytes(i).len() => {
                        let dtype = self.specs[i].dtype;
                        oppose(dtype, self.bytes_mut(i), &expected[i]);
                    }
                    Poison::Ones | Poison::Opposite(_) => {
                        parts(self.bytes_mut(i), &stop).for_each(|part| part.fill(0xff));
                    }
                }
            }
        }
        self.restore();
    }

    /// Restores buffers that are both read and written, so that values do not grow over repeated runs.
    pub fn restore(&mut self) {
        let stop = self.stop.clone();
        for i in 0..self.specs.len() {
            if self.specs[i].access == Access::InOut {
                let original = std::mem::take(&mut self.originals[i]);
                for (bytes, original) in parts(self.bytes_mut(i), &stop).zip(original.chunks(STOP_BYTES)) {
                    bytes.copy_from_slice(original);
                }
                self.originals[i] = original;
            }
        }
    }

    /// A copy of the buffers that are written; empty for others.
    pub fn outputs(&self) -> Vec<Vec<u8>> {
        let output = |i: usize| match self.specs[i].is_written() {
            true => copied(self.bytes(i), &self.stop),
            false => Vec::new(),
        };
        (0..self.specs.len()).map(output).collect()
    }

    /// Checks that a run left inputs and guards unchanged. If it did not, everything is restored.
    ///
    /// # Errors
    /// The first damage found.
    pub fn inspect(&mut self) -> Result<(), Damage> {
        let mut found = Ok(());
        let mut guard_start = 0;
        for i in 0..=self.specs.len() {
            let guard_end = self.guard_end(i, guard_start);
            let guard = &mut self.block_mut()[guard_start..guard_end];
            if guard.iter().any(|&b| b != GUARD_BYTE) {
                guard.fill(GUARD_BYTE);
                // A write after a buffer is likelier than one before the next.
                let spec = self.specs.get(i.saturating_sub(1));
                let param = spec.map_or_else(String::new, |s| s.name.clone());
                found = found.and(Err(Damage::OutOfBounds { param }));
            }
            guard_start = self.starts.get(i).map_or(0, |s| s + self.specs[i].bytes());
        }
        for i in 0..self.specs.len() {
            let sum = if self.specs[i].access == Access::In {
                checksum(self.bytes(i), &self.stop)
            } else {
                self.checksums[i]
            };
            if self.stop.is_raised() {
                return Err(Damage::Stopped);
            }
            if sum != self.checksums[i] {
                self.fill(i);
                found = found.and(Err(Damage::Input { param: self.specs[i].name.clone() }));
            }
        }
        found
    }

    fn block(&self) -> &[u8] {
        // SAFETY: the block is owned, initialised, and of this size.
        unsafe { std::slice::from_raw_parts(self.block.start().as_ptr(), self.block.size()) }
    }

    fn block_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.block.start().as_ptr(), self.block.size()) }
    }
}

/// Poisons a buffer; see [`Poison::Opposite`].
fn oppose(dtype: DType, bytes: &mut [u8], expected: &[u8]) {
    let size = dtype.bytes();
    let poison = |bytes: &mut [u8], expected: &[u8]| {
        if dtype == DType::Bool {
            bytes.fill(0xaa);
        } else if dtype.is_float() {
            let is_nan = TensorRef { dtype, shape: &[1], data: expected }.get(0).as_f64().is_nan();
            bytes.fill(if is_nan { 0 } else { 0xff });
        } else {
            // In little-endian order, the last byte has the sign.
            let sign = if dtype.is_int() { 0x80 } else { 0 };
            let is_upper = (expected[size - 1] ^ sign) & 0x80 != 0;
            bytes.fill(if is_upper { 0 } else { 0xff });
            bytes[size - 1] ^= sign;
        }
    };
    // Few outputs contain NaN.
    for (bytes, expected) in bytes.chunks_mut(POISONED * size).zip(expected.chunks(POISONED * size)) {
        if may_hold_nan(dtype, expected) {
            bytes.chunks_exact_mut(size).zip(expected.chunks_exact(size)).for_each(|(b, e)| poison(b, e));
        } else {
            bytes.fill(0xff);
        }
    }
}

/// Number of elements that [`oppose`] poisons together if none may be NaN.
const POISONED: usize = 1024;

/// Whether an element may be NaN: exact for the common floating-point types, true for all others.
fn may_hold_nan(dtype: DType, bytes: &[u8]) -> bool {
    let any_above = |infinity: u16| {
        bytes.as_chunks::<2>().0.iter().fold(false, |any, b| any | (u16::from_le_bytes(*b) & 0x7fff > infinity))
    };
    match dtype {
        DType::Float32 => bytes.as_chunks::<4>().0.iter().fold(false, |any, b| any | f32::from_le_bytes(*b).is_nan()),
        DType::Float64 => bytes.as_chunks::<8>().0.iter().fold(false, |any, b| any | f64::from_le_bytes(*b).is_nan()),
        DType::Float16 => any_above(0x7c00),
        DType::BFloat16 => any_above(0x7f80),
        _ => true,
    }
}

/// A checksum to detect changed bytes. Four independent chains make it as fast as memory.
fn checksum(bytes: &[u8], stop: &StopFlag) -> u64 {
    const K: u64 = 0x517c_c1b7_2722_0a95;
    let mut lanes = [1u64, 2, 3, 4];
    let (blocks, rest) = bytes.as_chunks::<32>();
    for part in blocks.chunks(STOP_BYTES / 32).take_while(|_| !stop.is_raised()) {
        for block in part {
            for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
                *lane = (lane.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(K);
            }
        }
    }
    let all = rest.iter().map(|&b| u64::from(b)).chain(lanes);
    all.fold(bytes.len() as u64, |h, w| (h.rotate_left(5) ^ w).wrapping_mul(K))
}

/// The bytes in chunks, until `stop` is raised.
fn parts<'a>(bytes: &'a mut [u8], stop: &StopFlag) -> impl Iterator<Item = &'a mut [u8]> {
    bytes.chunks_mut(STOP_BYTES).take_while(|_| !stop.is_raised())
}

/// A copy of the bytes; zeros from the point where `stop` was raised.
fn copied(bytes: &[u8], stop: &StopFlag) -> Vec<u8> {
    let mut copy = vec![0; bytes.len()];
    for (to, from) in parts(&mut copy, stop).zip(bytes.chunks(STOP_BYTES)) {
        to.copy_from_slice(from);
    }
    copy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::interp::{Tensor, Value};

    fn specs() -> Vec<ParamSpec> {
        vec![
            ParamSpec::new("A", DType::Float32, &[7, 5], Access::In),
            ParamSpec::new("B", DType::Int8, &[3], Access::InOut),
            ParamSpec::new("C", DType::Float32, &[7], Access::Out),
            ParamSpec::new("E", DType::Float32, &[0], Access::In),
        ]
    }

    #[test]
    fn buffers_are_aligned_apart_and_staggered() {
        let mut args = Arguments::new(&specs(), 1).unwrap();
        let pointers: Vec<usize> = args.pointers().iter().map(|p| *p as usize).collect();
        assert!(pointers.iter().all(|p| p.is_multiple_of(ALIGN)));
        let offsets: Vec<usize> = pointers.iter().map(|p| p % PAGE).collect();
        assert_eq!(offsets, [0, 576, 1152, 1728]);
        assert_eq!(args.total_bytes(), 140 + 3 + 28);
        assert!(args.inspect().is_ok());
    }

    #[test]
    fn contents_follow_from_the_seed() {
        let a = Arguments::new(&specs(), 1).unwrap();
        let b = a.copy().unwrap();
        let c = Arguments::new(&specs(), 2).unwrap();
        assert_eq!(a.bytes(0), b.bytes(0));
        assert_eq!(a.bytes(1), b.bytes(1));
        assert_ne!(a.bytes(0), c.bytes(0));
    }

    #[test]
    fn a_reset_poisons_and_restores() {
        let mut args = Arguments::new(&specs(), 1).unwrap();
        let before = args.bytes(1).to_vec();
        args.bytes_mut(1).fill(99);
        args.bytes_mut(2).fill(7);
        args.reset(Poison::Ones);
        assert_eq!(args.bytes(1), before);
        assert!(args.tensor(2).get(3).as_f64().is_nan());
        let expected = [Vec::new(), Vec::new(), vec![0x0f; 28], Vec::new()];
        args.reset(Poison::Opposite(&expected));
        assert!(args.bytes(2).iter().all(|&b| b == 0xff), "NaN");
        let expected = [Vec::new(), Vec::new(), vec![0xff; 28], Vec::new()];
        args.reset(Poison::Opposite(&expected));
        assert!(args.bytes(2).iter().all(|&b| b == 0), "where NaN is expected");
        for dtype in [DType::Float16, DType::BFloat16, DType::Float32, DType::Float64] {
            let (n, nan) = (POISONED + 7, POISONED + 3);
            let value = |i| Value::Float(if i == nan { f64::NAN } else { f64::INFINITY });
            let expected = Tensor::from_values(dtype, &[n as i64], (0..n).map(value)).data;
            let mut bytes = vec![7; expected.len()];
            oppose(dtype, &mut bytes, &expected);
            for (i, element) in bytes.chunks_exact(dtype.bytes()).enumerate() {
                assert!(element.iter().all(|&b| b == if i == nan { 0 } else { 0xff }), "{dtype} {i}");
            }
        }
        for (dtype, expected, poison) in
            [(DType::UInt8, 128, 0), (DType::UInt8, 127, 255), (DType::Int8, 0, -128), (DType::Int16, -1, 32767)]
        {
            let mut bytes = [7; 2];
            let expected: i64 = expected;
            oppose(dtype, &mut bytes[..dtype.bytes()], &expected.to_le_bytes()[..dtype.bytes()]);
            assert_eq!(
                TensorRef { dtype, shape: &[1], data: &bytes[..dtype.bytes()] }.get(0).as_f64(),
                f64::from(poison)
            );
        }
        assert_eq!(args.outputs().iter().map(Vec::len).collect::<Vec<_>>(), [0, 3, 28, 0]);
    }

    #[test]
    fn damage_is_named_and_mended() {
        let check = |damage: &dyn Fn(&mut Arguments), expected: Damage| {
            let mut args = Arguments::new(&specs(), 1).unwrap();
            let input = args.bytes(0).to_vec();
            damage(&mut args);
            assert_eq!(args.inspect(), Err(expected));
            assert_eq!(args.inspect(), Ok(()));
            assert_eq!(args.bytes(0), input);
        };
        let behind = |i: usize| {
            move |args: &mut Arguments| {
                let end = args.starts[i] + args.specs[i].bytes();
                args.block_mut()[end] ^= 1;
            }
        };
        check(&behind(0), Damage::OutOfBounds { param: "A".into() });
        check(&behind(1), Damage::OutOfBounds { param: "B".into() });
        check(&behind(3), Damage::OutOfBounds { param: "E".into() });
        let before = |args: &mut Arguments| {
            let start = args.starts[2];
            args.block_mut()[start - 1] = 0;
        };
        check(&before, Damage::OutOfBounds { param: "B".into() });
        check(&|args| args.bytes_mut(0)[139] ^= 1, Damage::Input { param: "A".into() });
    }

    #[test]
    fn a_raised_flag_ends_what_goes_through_memory() {
        let stop = StopFlag::new();
        let mut args = Arguments::until(&specs(), 1, &stop).unwrap();
        assert_eq!(args.inspect(), Ok(()));
        stop.raise();
        assert_eq!(args.inspect(), Err(Damage::Stopped), "what was not looked at is not known to be whole");
        assert_eq!(args.outputs().iter().map(Vec::len).collect::<Vec<_>>(), [0, 3, 28, 0]);
        assert_eq!(Arguments::until(&specs(), 1, &stop).err(), Some(ArgumentsError::Stopped));
    }

    #[test]
    fn too_much_is_an_error() {
        for shape in [&[i64::MAX, i64::MAX][..], &[1 << 60], &[i64::MAX; 40]] {
            let spec = ParamSpec::new("A", DType::Float32, shape, Access::In);
            assert!(Arguments::new(&[spec], 1).is_err(), "{shape:?}");
        }
    }

    #[test]
    fn elements_have_indices() {
        let spec = ParamSpec::new("A", DType::Float32, &[2, 3, 4], Access::In);
        assert_eq!(spec.indices(0), Some(vec![0, 0, 0]));
        assert_eq!(spec.indices(23), Some(vec![1, 2, 3]));
        assert_eq!(spec.indices(13), Some(vec![1, 0, 1]));
        let layout = ParamLayout { extents: vec![2, 3, 4], strides: vec![16, 5, 1], offset: 3 };
        let written = ParamSpec::new("B", DType::Float32, &[2, 3, 4], Access::Out).placed(layout.clone());
        assert_eq!(written.access, Access::InOut);
        let spec = spec.placed(layout);
        assert_eq!((spec.len(), spec.access), (3 + 16 + 10 + 3 + 1, Access::In));
        assert_eq!(spec.indices(3 + 16 + 10 + 2), Some(vec![1, 2, 2]));
        assert_eq!((spec.indices(2), spec.indices(3 + 4)), (None, None));
        assert_eq!(ParamSpec::new("s", DType::Float32, &[], Access::Out).indices(0), Some(Vec::new()));
    }
}
