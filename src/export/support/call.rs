//! Calls of exported functions with pointers: checks, scratch memory, choice of the version.

use crate::abi::{Code, Code1, Entry, Frame, Function, Library, Param, Team, USED_BY_CALL, USED_BY_PREPARATION, Version};
use crate::{cpu, fork, scratch, weights};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::AtomicU32;

/// Alignment that kernels expect of scratch memory.
const ALIGN: usize = 64;
/// Scratch memory up to this size lies on the stack, of which a call may take 16 KiB in all.
const ON_STACK: usize = 8192;

/// How a function is called.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Mode {
    /// With all parameters: constant ones are prepared in the call.
    Plain = 0,
    /// With memory that was prepared.
    Prepared = 1,
    /// The preparation alone.
    Prepare = 2,
}

impl Entry {
    /// The functions, one for each choice of sizes.
    pub(crate) fn functions(&self) -> &[Function] {
        // SAFETY: the exporter wrote that many.
        unsafe { core::slice::from_raw_parts(self.functions, self.n_functions as usize) }
    }

    /// The sizes of a function.
    pub(crate) fn sizes_of(&self, function: usize) -> *const i64 {
        self.sizes.wrapping_add(function.wrapping_mul(self.n_sizes as usize))
    }

    /// The function for the most samples, but not more than `most`, and these sizes otherwise; and the number of its samples.
    unsafe fn of_samples(&self, sizes: *const i64, most: i64) -> Option<(&Function, i64)> {
        let mut best: Option<(&Function, i64)> = None;
        for (i, function) in self.functions().iter().enumerate() {
            let own = self.sizes_of(i);
            let mut samples = 0;
            let mut same = true;
            for j in 0..self.n_sizes as usize {
                // SAFETY: the table has as many sizes for each function as the entry says, and the caller passes that many.
                let (size, wanted) = unsafe { (*own.wrapping_add(j), *sizes.wrapping_add(j)) };
                if j.wrapping_add(1) == self.batch as usize {
                    samples = size;
                } else {
                    same &= size == wanted;
                }
            }
            if same && samples <= most && best.is_none_or(|(_, n)| n < samples) {
                best = Some((function, samples));
            }
        }
        best
    }

    /// The number of samples among these sizes; `None` if the entry has no batch.
    unsafe fn samples(&self, sizes: *const i64) -> Option<i64> {
        let at = (self.batch as usize).checked_sub(1)?;
        // SAFETY: the caller passes as many sizes as the entry has.
        Some(unsafe { *sizes.wrapping_add(at) })
    }

    /// The function for these sizes.
    unsafe fn of_sizes(&self, sizes: *const i64) -> Option<&Function> {
        let n = self.n_sizes as usize;
        self.functions().iter().enumerate().find_map(|(i, f)| {
            // SAFETY: the table has `n` sizes for each function, and the caller passes `n`.
            let same = (0..n).all(|j| unsafe { *self.sizes.wrapping_add(i.wrapping_mul(n)).wrapping_add(j) == *sizes.wrapping_add(j) });
            same.then_some(f)
        })
    }
}

impl Function {
    /// The parameters.
    pub(crate) fn params(&self) -> &[Param] {
        // SAFETY: the exporter wrote that many.
        unsafe { core::slice::from_raw_parts(self.params, self.n_params as usize) }
    }

    /// The best version for CPUs with these features.
    fn version(&self, features: u32) -> Option<&Version> {
        // SAFETY: the exporter wrote that many.
        let versions = unsafe { core::slice::from_raw_parts(self.versions, self.n_versions as usize) };
        versions.iter().find(|v| v.needs & !features == 0)
    }

    /// Bytes of scratch memory of a call with these workers.
    fn workspace(&self, version: &Version, mode: Mode, n_workers: usize) -> usize {
        let (call, prepare) = (version.call.bytes(n_workers), version.prepare.bytes(n_workers));
        match mode {
            Mode::Plain if self.prepared_bytes > 0 => round_up(self.prepared_bytes as usize).wrapping_add(call.max(prepare)),
            Mode::Plain | Mode::Prepared => call,
            Mode::Prepare => prepare,
        }
    }
}

impl Code1 {
    fn bytes(&self, n_workers: usize) -> usize {
        round_up(self.shared as usize).wrapping_add((self.private as usize).wrapping_mul(n_workers))
    }
}

fn round_up(bytes: usize) -> usize {
    bytes.wrapping_add(ALIGN - 1) & !(ALIGN - 1)
}

/// A call that was checked.
struct Checked<'a> {
    library: &'a Library,
    function: &'a Function,
    version: &'a Version,
    team: Team,
    mode: Mode,
    args: *mut *mut u8,
    prepared: *mut u8,
}

/// Calls a function.
///
/// `args` has a pointer for each parameter and room for one to each prepared buffer; those that the mode does not use may be
/// null. `workspace` is null, or as long as [`tvmr_support_workspace_bytes`] says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn tvmr_support_call(
    entry: &Entry,
    args: *mut *mut u8,
    sizes: *const i64,
    prepared: *mut u8,
    workspace: *mut u8,
    mode: u32,
) -> i32 {
    let mode = match mode {
        0 => Mode::Plain,
        1 => Mode::Prepared,
        _ => Mode::Prepare,
    };
    // SAFETY: wrappers pass as many sizes as the entry has; the rest is as promised by the caller.
    unsafe {
        if let Some(n) = entry.samples(sizes) {
            return call_in_parts(entry, args, sizes, n, workspace) as i32;
        }
        let Some(function) = entry.of_sizes(sizes) else { return Code::Size as i32 };
        call(entry, function, args, prepared, workspace, mode) as i32
    }
}

/// Calls functions on parts of a batch of `n` samples, the largest first. Of `sizes`, the number of samples is not read.
pub(crate) unsafe fn call_in_parts(
    entry: &Entry,
    args: *mut *mut u8,
    sizes: *const i64,
    n: i64,
    workspace: *mut u8,
) -> Code {
    // SAFETY: the caller passes as many sizes as the entry has.
    if n < 0 || unsafe { entry.of_samples(sizes, i64::MAX) }.is_none() {
        return Code::Size;
    }
    let mut rest = n;
    while rest > 0 {
        // SAFETY: as above. The exporter wrote functions for at least one sample.
        let Some((function, samples)) = (unsafe { entry.of_samples(sizes, rest) }) else { return Code::Size };
        // SAFETY: the samples that are left are at least as many.
        let code = unsafe { call(entry, function, args, null_mut(), workspace, Mode::Plain) };
        if code != Code::Ok {
            return code;
        }
        for (i, param) in function.params().iter().enumerate() {
            // SAFETY: there is a pointer for each parameter.
            let place = unsafe { &mut *args.wrapping_add(i) };
            // The call has moved it to the start of the program's buffer.
            *place = place.wrapping_add(param.offset as usize).wrapping_add(param.bytes as usize);
        }
        rest = rest.wrapping_sub(samples);
    }
    Code::Ok
}

/// Calls the function of a choice of sizes.
pub(crate) unsafe fn call(
    entry: &Entry,
    function: &Function,
    args: *mut *mut u8,
    prepared: *mut u8,
    workspace: *mut u8,
    mode: Mode,
) -> Code {
    let used = match mode {
        Mode::Plain => USED_BY_CALL | USED_BY_PREPARATION,
        Mode::Prepared => USED_BY_CALL,
        Mode::Prepare => USED_BY_PREPARATION,
    };
    for (i, param) in function.params().iter().enumerate() {
        // SAFETY: there is a pointer for each parameter.
        let place = unsafe { &mut *args.wrapping_add(i) };
        let at = *place as usize;
        if param.used & used != 0 && param.bytes > 0 {
            if at == 0 {
                return Code::Null;
            }
            if at & (param.align as usize).wrapping_sub(1) != 0 {
                return Code::Misaligned;
            }
        }
        *place = place.wrapping_sub(param.offset as usize);
    }
    let needs_prepared = mode != Mode::Plain && function.prepared_bytes > 0;
    if needs_prepared && prepared.is_null() {
        return Code::Null;
    }
    if (needs_prepared && prepared as usize & (ALIGN - 1) != 0) || workspace as usize & (ALIGN - 1) != 0 {
        return Code::Misaligned;
    }
    // SAFETY: the library of an entry is static data of the object.
    let library = unsafe { &*entry.library };
    if function.needs_weights != 0 && !weights::are_set(library) {
        return Code::WeightsMissing;
    }
    let Some(version) = function.version(cpu::features_of(library)) else { return Code::Cpu };
    let team = if function.is_parallel == 0 { SERIAL } else { fork::team(library) };
    let checked = Checked { library, function, version, team, mode, args, prepared };
    if !workspace.is_null() {
        // SAFETY: the caller gives as many bytes as `tvmr_support_workspace_bytes` says.
        return unsafe { checked.run(workspace) };
    }
    let bytes = function.workspace(version, mode, team.n_workers as usize);
    // SAFETY: the memory is as long as the call needs.
    unsafe {
        if bytes == 0 {
            checked.run(null_mut())
        } else if bytes <= ON_STACK {
            checked.run_on_stack()
        } else {
            checked.run_on_heap(bytes)
        }
    }
}

/// The caller alone.
const SERIAL: Team = Team { parallel_for: None, ctx: null_mut(), n_workers: 1 };

#[repr(C, align(64))]
struct Stack([MaybeUninit<u8>; ON_STACK]);

impl Checked<'_> {
    #[inline(never)]
    unsafe fn run_on_stack(&self) -> Code {
        let mut memory = MaybeUninit::<Stack>::uninit();
        // SAFETY: as promised by the caller.
        unsafe { self.run(memory.as_mut_ptr().cast()) }
    }

    #[inline(never)]
    unsafe fn run_on_heap(&self, bytes: usize) -> Code {
        let Some(memory) = scratch::take(self.library, bytes) else { return Code::Memory };
        // SAFETY: as promised by the caller; the memory is this call's until it is kept.
        unsafe {
            let code = self.run(memory.start());
            memory.keep(self.library);
            code
        }
    }

    unsafe fn run(&self, workspace: *mut u8) -> Code {
        let function = self.function;
        let (mut prepared, mut scratch) = (self.prepared, workspace);
        if self.mode == Mode::Plain && function.prepared_bytes > 0 {
            prepared = workspace;
            scratch = workspace.wrapping_add(round_up(function.prepared_bytes as usize));
        }
        for i in 0..function.n_prepared as usize {
            // SAFETY: `args` has room for these, and the table an offset for each.
            unsafe {
                let offset = *function.prepared.wrapping_add(i) as usize;
                *self.args.wrapping_add(function.n_params as usize).wrapping_add(i) = prepared.wrapping_add(offset);
            }
        }
        if function.prepared_bytes > 0 && self.mode != Mode::Prepared {
            // SAFETY: as promised by the caller.
            let code = unsafe { self.run_kernel(&self.version.prepare, scratch) };
            if code != Code::Ok {
                return code;
            }
        }
        if self.mode == Mode::Prepare {
            return Code::Ok;
        }
        // SAFETY: as promised by the caller.
        unsafe { self.run_kernel(&self.version.call, scratch) }
    }

    unsafe fn run_kernel(&self, code: &Code1, scratch: *mut u8) -> Code {
        let Some(kernel) = code.kernel else { return Code::Ok };
        let never = AtomicU32::new(0);
        let frame = Frame {
            params: self.args,
            shared: scratch,
            private: scratch.wrapping_add(round_up(code.shared as usize)),
            stop: &raw const never,
            fork: fork::fork,
            workers: &raw const self.team,
        };
        // SAFETY: the kernel was generated for such a frame; pointers are the caller's promise.
        match unsafe { kernel(&raw const frame) } {
            0 => Code::Ok,
            2 => Code::Division,
            fork::HOOK_FAILED => Code::Parallel,
            0x4000_0000.. => Code::Assertion,
            _ => Code::Bounds,
        }
    }
}

/// Bytes that a call needs as workspace with the hook of now; 0 if there is no function for the sizes or no version for the
/// CPU (the call says so).
#[unsafe(no_mangle)]
unsafe extern "C" fn tvmr_support_workspace_bytes(entry: &Entry, sizes: *const i64) -> usize {
    // SAFETY: wrappers pass as many sizes as the entry has.
    unsafe {
        let Some(n) = entry.samples(sizes) else {
            return entry.of_sizes(sizes).map_or(0, |function| workspace_bytes(entry, function));
        };
        // Parts become smaller, but those of fewer samples may need more memory.
        let (mut most, mut rest) = (0, n);
        while let Some((function, samples)) = entry.of_samples(sizes, rest) {
            most = workspace_bytes(entry, function).max(most);
            rest = samples.wrapping_sub(1);
        }
        most
    }
}

fn workspace_bytes(entry: &Entry, function: &Function) -> usize {
    // SAFETY: the library of an entry is static data of the object.
    let library = unsafe { &*entry.library };
    let Some(version) = function.version(cpu::features_of(library)) else { return 0 };
    let n_workers = if function.is_parallel == 0 { 1 } else { fork::team(library).n_workers as usize };
    let largest = |mode| function.workspace(version, mode, n_workers);
    largest(Mode::Plain).max(largest(Mode::Prepare))
}

/// Bytes of prepared memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn tvmr_support_prepared_bytes(entry: &Entry, sizes: *const i64) -> usize {
    // SAFETY: wrappers pass as many sizes as the entry has.
    unsafe { entry.of_sizes(sizes) }.map_or(0, |f| f.prepared_bytes as usize)
}
