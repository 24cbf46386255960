//! Asks for an alignment of a dimension of a buffer, as an annotation of the block that writes it.
//!
//!     with T.block("B"):
//!         T.block_attr({"buffer_dim_align": [[0, 1, 32, 8]]})  # buffer, axis, factor, offset
//!
//! The stride of the dimension becomes `k * factor + offset`. A request for the same buffer and axis replaces the one
//! before.
//!
//! Requires: the block writes the buffer at that index, a block around it allocates the buffer, the axis exists (from
//! the end if negative), the factor is positive. Preserves: everything. Returns: nothing.
//!
//! Handles: persist.

use super::super::analysis::alloc_site::require_alloc_site;
use super::super::call::{Access, Call};
use super::super::error::{ErrorKind, ScheduleError};
use super::super::kind::{Kind, Outcome, Outputs, Param, Ty};
use crate::ir::AttrValue;

/// `storage_align(block, buffer_index, axis, factor, offset)`.
pub static STORAGE_ALIGN: Kind = Kind {
    name: "StorageAlign",
    method: "storage_align",
    classic: None,
    positional: false,
    params: &[
        Param::input("block", Ty::Block),
        Param::attr("buffer_index", Ty::BufferIndex),
        Param::attr("axis", Ty::Int),
        Param::attr("factor", Ty::Int),
        Param::attr("offset", Ty::Int),
    ],
    outputs: Outputs::None,
    samples: false,
    run,
};

const KEY: &str = "buffer_dim_align";

fn run(call: &mut Call<'_>) -> Result<Outcome, ScheduleError> {
    let (index, block) = call.block(0)?;
    let position = call.buffer_index(1, index, block, Access::Write)?;
    let (axis, factor, offset) = (call.int(2)?, call.int(3)?, call.int(4)?);
    let state = call.state(index);
    let func = &state.func;
    let buffer = func.block(block).writes[position].buffer;
    if factor <= 0 {
        return Err(state.error(ErrorKind::StorageAlignInvalidFactor { factor }, block));
    }
    let rank = func.arena.list(func.arena.buffer(buffer).shape).len();
    if axis < -(rank as i64) || axis >= rank as i64 {
        return Err(state.error(ErrorKind::StorageAlignAxisOutOfRange { axis, rank }, block));
    }
    let axis = if axis < 0 { axis + rank as i64 } else { axis };
    require_alloc_site(state, block, buffer)?;
    let mut requests = match func.block(block).annotations.get(KEY) {
        None => Vec::new(),
        Some(AttrValue::List(items)) if items.iter().all(is_request) => items.clone(),
        Some(_) => return Err(state.error(ErrorKind::StorageAlignInvalidAnnotation, block)),
    };

    let key = [AttrValue::Int(position as i64), AttrValue::Int(axis)];
    let is_same = |r: &AttrValue| matches!(r, AttrValue::List(fields) if fields[..2] == key);
    let request =
        AttrValue::List(key.iter().cloned().chain([AttrValue::Int(factor), AttrValue::Int(offset)]).collect());
    match requests.iter().position(is_same) {
        Some(i) => requests[i] = request,
        None => requests.push(request),
    }
    call.state(index).func.block_mut(block).annotations.insert(KEY, AttrValue::List(requests));
    Ok(Outcome::none())
}

fn is_request(value: &AttrValue) -> bool {
    matches!(value, AttrValue::List(fields) if fields.len() == 4 && fields.iter().all(|f| f.as_int().is_some()))
}
