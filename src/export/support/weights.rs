//! External weights: checks what a host passes, and keeps its address.

use crate::abi::{Code, Library, WEIGHTS_MAGIC, WEIGHTS_VERSION, WeightsHeader};
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Acquire, Release};

/// Tensors are at multiples of this behind the header, so the whole must be aligned to it.
const ALIGN: usize = 64;

/// Whether the weights that a library needs were passed.
pub(crate) fn are_set(library: &Library) -> bool {
    !library.weights.load(Acquire).is_null()
}

/// Takes `bytes` bytes of weights, which stay readable and unchanged from now on.
pub(crate) unsafe fn set(library: &Library, data: *const u8, bytes: usize) -> Code {
    if data.is_null() {
        return Code::Null;
    }
    if data as usize & (ALIGN - 1) != 0 {
        return Code::Misaligned;
    }
    if bytes < size_of::<WeightsHeader>() || library.expected_weights.is_null() {
        return Code::WeightsSize;
    }
    // SAFETY: the caller passes at least a header, aligned; the other one is constant data of the object.
    let (found, expected) = unsafe { (&*data.cast::<WeightsHeader>(), &*library.expected_weights) };
    // Two arrays of bytes would be compared by a function of the C library.
    let same = |a: &[u8], b: &[u8]| a.iter().zip(b).all(|(a, b)| a == b);
    if !same(&found.magic, &WEIGHTS_MAGIC) {
        return Code::WeightsMagic;
    }
    if found.version != WEIGHTS_VERSION {
        return Code::WeightsVersion;
    }
    if found.isa != expected.isa {
        return Code::WeightsIsa;
    }
    if !same(&found.hash, &expected.hash) || found.bytes != expected.bytes {
        return Code::WeightsModel;
    }
    if found.bytes != bytes as u64 {
        return Code::WeightsSize;
    }
    // Once for good: calls on other threads may be reading them.
    match library.weights.compare_exchange(null_mut(), data.cast_mut(), Release, Acquire) {
        Ok(_) => Code::Ok,
        Err(known) if known.cast_const() == data => Code::Ok,
        Err(_) => Code::WeightsSet,
    }
}

/// [`set`] for the wrapper of the plain convention.
#[unsafe(no_mangle)]
unsafe extern "C" fn tvmr_support_set_weights(library: &Library, data: *const u8, bytes: usize) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe { set(library, data, bytes) as i32 }
}
