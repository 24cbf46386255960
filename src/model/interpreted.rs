//! Steps that the interpreter runs: slow, but it shares nothing with the code generator.

use crate::ir::interp::{self, Arg, Options, Precision, Tensor};
use crate::ir::{DType, Func, Stmt, StmtId};

/// A function that the interpreter runs, with all floats as `float64`.
pub(super) struct Interpreted {
    func: Func,
    /// The type and the extents of each parameter.
    params: Vec<(DType, Vec<i64>)>,
}

impl Interpreted {
    /// # Errors
    /// A parameter is no array of known extents.
    pub(super) fn new(func: &Func) -> Result<Interpreted, String> {
        let func = func.callable().into_owned();
        let param = |p: &crate::ir::Param| {
            let buffer = func.arena.buffer(p.buffer?);
            let extents = func.arena.list(buffer.shape).iter().map(|&e| func.arena.as_int(e));
            Some((buffer.dtype, extents.collect::<Option<Vec<i64>>>()?))
        };
        let params: Option<Vec<_>> = func.params.iter().map(param).collect();
        match params {
            Some(params) => Ok(Interpreted { params, func }),
            None => Err("it takes something else than arrays of known extents".to_owned()),
        }
    }

    /// The number of its parameters.
    pub(super) fn n_params(&self) -> usize {
        self.params.len()
    }

    /// Runs the function.
    ///
    /// # Safety
    /// There is a pointer for each parameter, to memory of the parameter's size, which nothing else writes meanwhile.
    pub(super) unsafe fn call(&self, arguments: &[*mut u8]) -> Result<(), String> {
        let read = |((dtype, shape), &pointer): (&(DType, Vec<i64>), &*mut u8)| {
            let mut tensor = Tensor::zeros(*dtype, shape);
            // SAFETY: the caller promises that the memory has the parameter's size.
            unsafe { std::ptr::copy_nonoverlapping(pointer, tensor.data.as_mut_ptr(), tensor.data.len()) };
            tensor
        };
        let before: Vec<Tensor> = self.params.iter().zip(arguments).map(read).collect();
        let mut after: Vec<Arg> = before.iter().cloned().map(Arg::Tensor).collect();
        let options = Options { precision: Precision::Wide, ..Options::default() };
        interp::run(&self.func, &mut after, options).map_err(|e| e.message(&self.func))?;
        for ((before, after), &pointer) in before.iter().zip(&after).zip(arguments) {
            // What is only read may be shared, so it is not written.
            if let Some(after) = after.tensor().filter(|after| after.data != before.data) {
                // SAFETY: the function has written it, and the memory has the parameter's size.
                unsafe { std::ptr::copy_nonoverlapping(after.data.as_ptr(), pointer, after.data.len()) };
            }
        }
        Ok(())
    }
}

/// How many stores the interpreter makes in a run of the function; where a number of iterations is unknown, one is assumed.
pub(super) fn stores(func: &Func) -> f64 {
    of_stmt(func, func.root.stmt())
}

fn of_stmt(func: &Func, s: StmtId) -> f64 {
    let all = |body: &[StmtId]| body.iter().map(|&c| of_stmt(func, c)).sum::<f64>();
    match func.get(s) {
        Stmt::Loop(l) => func.n_iterations(l).map_or(1.0, |n| n as f64) * all(&l.body),
        Stmt::Block(b) => all(&b.body),
        Stmt::If { then, otherwise, .. } => all(then).max(all(otherwise)),
        Stmt::Let { body, .. } | Stmt::While { body, .. } => all(body),
        Stmt::Attr(a) => all(&a.body),
        Stmt::Store { .. } | Stmt::Evaluate(_) => 1.0,
        Stmt::Return(_)
        | Stmt::Assert(_)
        | Stmt::Alloc { .. }
        | Stmt::Declare { .. }
        | Stmt::Break
        | Stmt::Continue => 0.0,
    }
}
