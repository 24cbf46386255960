//! Checks that arrays fit the parameters of a function.

use super::array::{ArrayRef, Dims};
use super::{CallError, Pointers};
use crate::loopir::Access;
use crate::measure::ParamSpec;
use std::fmt::Write;

/// The pointers of arrays that fit their parameters.
///
/// # Errors
/// An array does not fit; the text says how.
pub(crate) fn check(name: &str, params: &[ParamSpec], arrays: &[ArrayRef<'_>]) -> Result<Pointers, CallError> {
    if params.len() != arrays.len() {
        return Err(CallError::Argument(wrong_number(name, params, arrays.len())));
    }
    let mut pointers = Pointers::with_capacity(arrays.len() + 2);
    for (i, (param, array)) in params.iter().zip(arrays).enumerate() {
        let pointer = fit(param, array);
        pointers.push(
            pointer.map_err(|why| CallError::Argument(format!("argument {i} of `{name}`, `{}`: {why}", param.name)))?,
        );
    }
    for (i, _) in params.iter().enumerate().filter(|(_, p)| p.is_written()) {
        let Some(written) = arrays[i].bytes() else { continue };
        for (j, other) in arrays.iter().enumerate().filter(|&(j, _)| j != i) {
            if other.bytes().is_some_and(|o| o.start < written.end && written.start < o.end) {
                let (written, other) = (&params[i].name, &params[j].name);
                let what =
                    format!("`{name}` writes `{written}`, which overlaps `{other}`; pass arrays that do not overlap");
                return Err(CallError::Argument(what));
            }
        }
    }
    Ok(pointers)
}

/// The message for a wrong number of arrays.
fn wrong_number(name: &str, params: &[ParamSpec], found: usize) -> String {
    let names = |is: &dyn Fn(&ParamSpec) -> bool| {
        let names: Vec<String> = params.iter().filter(|p| is(p)).map(|p| format!("`{}`", p.name)).collect();
        (names.len(), names.join(", "))
    };
    let (n, all) = names(&|_| true);
    let s = if n == 1 { "" } else { "s" };
    let mut text = format!("`{name}` takes {n} array{s} ({all})");
    let (inputs, _) = names(&|p| p.access != Access::Out);
    if inputs < n && inputs > 0 {
        let (_, outputs) = names(&|p| p.access == Access::Out);
        // Writing to a string cannot fail.
        let _ = write!(text, ", or {inputs} without the outputs ({outputs})");
    }
    let _ = write!(text, "; found {found}");
    text
}

/// The pointer that the kernel is passed for an array.
fn fit(param: &ParamSpec, array: &ArrayRef<'_>) -> Result<*mut u8, String> {
    if array.dtype != param.dtype {
        return Err(format!("expected {}, found {}", param.dtype, array.dtype));
    }
    if array.shape[..] != param.shape[..] {
        return Err(format!("expected shape {:?}, found {:?}", param.shape, &array.shape[..]));
    }
    let is_empty = array.shape.contains(&0);
    if let Some(strides) = &array.strides
        && !is_empty
    {
        check_strides(param, strides)?;
    } else if let Some(layout) = &param.layout
        && !is_empty
    {
        check_strides(param, &compact(&layout.extents))?;
    }
    if param.is_written() && !array.is_writable {
        return Err("it is written, but the array is read-only".to_owned());
    }
    if is_empty {
        return Ok(super::UNUSED);
    }
    if array.data.is_null() {
        return Err("the array has no memory".to_owned());
    }
    if !array.data.addr().is_multiple_of(param.dtype.bytes()) {
        let bytes = param.dtype.bytes();
        return Err(format!("the array is not aligned to its elements of {bytes} bytes; copy it to memory that is"));
    }
    // Kernels count from the start of the buffer, of which the array is the part behind the offset.
    let offset = param.layout.as_ref().map_or(0, |l| usize::try_from(l.offset).unwrap_or(0) * param.dtype.bytes());
    Ok(array.data.wrapping_sub(offset))
}

/// Checks the strides of an array that has elements. The stride of a dimension with one element does not matter.
fn check_strides(param: &ParamSpec, found: &Dims) -> Result<(), String> {
    let expected = match &param.layout {
        Some(layout) => Dims::from_slice(&layout.strides),
        None => compact(&param.shape),
    };
    let differs = (0..found.len()).any(|d| param.shape[d] != 1 && expected[d] != found[d]);
    if found.len() != expected.len() || differs {
        let (expected, found) = (&expected[..], &found[..]);
        let contiguous = if param.layout.is_none() { "contiguous elements, which are " } else { "" };
        return Err(format!("expected {contiguous}strides of {expected:?} elements, found {found:?}"));
    }
    Ok(())
}

/// The strides of contiguous elements in row-major order.
fn compact(shape: &[i64]) -> Dims {
    let mut strides = Dims::from_elem(1, shape.len());
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d].saturating_mul(shape[d]);
    }
    strides
}
