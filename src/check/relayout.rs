//! The layouts in which a scheduled function takes its parameters.
//!
//! `transform_layout` may change the layout of a parameter. [`Layouts`] follows a schedule instruction by instruction, and
//! converts arrays between the layout as written and that of the schedule.

use crate::ir::{BufferId, Func};
use crate::measure::ParamSpec;
use crate::schedule::Schedule;
use crate::schedule::arg::{Arg, Lambda, LambdaExpr, Rv};

/// The changes of the layout of each parameter of a function.
pub(crate) struct Layouts {
    /// The buffers of the parameters after the last instruction.
    buffers: Vec<Option<BufferId>>,
    changes: Vec<Vec<Change>>,
}

/// One change of a layout.
enum Change {
    Map {
        from: Vec<i64>,
        to: Vec<i64>,
        map: Lambda,
        /// The contents of places without an element.
        padding: Padding,
    },
    /// A change that cannot be followed, with the reason.
    Unknown(String),
}

enum Padding {
    /// Any value: the program does not read it, or writes it itself.
    Any,
    Value(f64),
    /// A function of the indices.
    Computed,
}

impl Layouts {
    /// The layouts of a function as written.
    pub(crate) fn new(func: &Func) -> Layouts {
        Layouts { buffers: buffers(func), changes: func.params.iter().map(|_| Vec::new()).collect() }
    }

    /// Records the changes that the last instruction of a schedule made to the parameters of function `index`.
    pub(crate) fn follow(&mut self, schedule: &Schedule, index: usize) {
        let func = schedule.func(index);
        let new = buffers(func);
        for (i, (before, after)) in self.buffers.iter().zip(&new).enumerate() {
            if let (Some(before), Some(after)) = (before, after)
                && before != after
            {
                self.changes[i].push(last_change(schedule, func, *before, *after));
            }
        }
        self.buffers = new;
    }

    /// The parameters of the scheduled function.
    pub(crate) fn specs(&self, written: &[ParamSpec]) -> Vec<ParamSpec> {
        let spec = |(spec, changes): (&ParamSpec, &Vec<Change>)| match changes.last() {
            Some(Change::Map { to, .. }) => ParamSpec { shape: to.clone(), layout: None, ..spec.clone() },
            Some(Change::Unknown(_)) | None => spec.clone(),
        };
        written.iter().zip(&self.changes).map(spec).collect()
    }

    fn check_compact(&self, i: usize, spec: &ParamSpec) -> Result<(), String> {
        if spec.layout.is_some() && !self.is_as_written(i) {
            return Err(format!("`{}` has strides or an offset, and the schedule changes its layout", spec.name));
        }
        Ok(())
    }

    /// Is parameter `i` passed as written?
    pub(crate) fn is_as_written(&self, i: usize) -> bool {
        self.changes[i].is_empty()
    }

    /// Converts an array of parameter `i` from the layout as written to that of the schedule.
    ///
    /// # Errors
    /// The layout is not known; the text says why.
    pub(crate) fn to_scheduled(&self, i: usize, spec: &ParamSpec, written: &[u8]) -> Result<Vec<u8>, String> {
        self.check_compact(i, spec)?;
        let size = spec.dtype.bytes();
        let mut data = written.to_vec();
        for change in &self.changes[i] {
            let (places, n) = places(change)?;
            let mut moved = match change {
                Change::Map { padding: Padding::Value(v), .. } => {
                    let value = match spec.dtype.is_float() {
                        true => crate::ir::interp::Value::Float(*v),
                        false => crate::ir::interp::Value::Int(*v as i64),
                    };
                    crate::ir::interp::Tensor::from_values(spec.dtype, &[n as i64], std::iter::repeat(value)).data
                }
                Change::Map { padding: Padding::Computed, .. } if places.len() < n => {
                    return Err(format!("the padding of `{}` is a function of the indices", spec.name));
                }
                Change::Map { .. } | Change::Unknown(_) => vec![0; n * size],
            };
            for (from, &to) in data.chunks_exact(size).zip(&places) {
                moved[to * size..(to + 1) * size].copy_from_slice(from);
            }
            data = moved;
        }
        Ok(data)
    }

    /// Converts an array of parameter `i` from the layout of the schedule to that as written.
    ///
    /// # Errors
    /// The layout is not known; the text says why.
    pub(crate) fn to_written(&self, i: usize, spec: &ParamSpec, scheduled: &[u8]) -> Result<Vec<u8>, String> {
        self.check_compact(i, spec)?;
        let size = spec.dtype.bytes();
        let mut data = scheduled.to_vec();
        for change in self.changes[i].iter().rev() {
            let (places, _) = places(change)?;
            data = places.iter().flat_map(|&p| data[p * size..(p + 1) * size].iter().copied()).collect();
        }
        Ok(data)
    }
}

fn buffers(func: &Func) -> Vec<Option<BufferId>> {
    func.params.iter().map(|p| p.buffer).collect()
}

fn shape(func: &Func, b: BufferId) -> Option<Vec<i64>> {
    func.arena.list(func.arena.buffer(b).shape).iter().map(|&e| func.arena.as_int(e)).collect()
}

fn last_change(schedule: &Schedule, func: &Func, before: BufferId, after: BufferId) -> Change {
    let name = func.arena.buffer(after).name;
    let Some(inst) = schedule.trace().insts.last() else {
        return Change::Unknown(format!("the parameter `{name}` was replaced"));
    };
    let unknown = || Change::Unknown(format!("`{}` changes what callers pass as `{name}`", inst.kind.method));
    let arg = |name: &str| inst.kind.param(name).map(|i| &inst.args[i]);
    let (Some(Arg::Lambda(map)), Some(from), Some(to)) = (arg("index_map"), shape(func, before), shape(func, after))
    else {
        return unknown();
    };
    let number = |rv: Rv| schedule.int_value(rv).map_or(LambdaExpr::Rv(rv), LambdaExpr::Int);
    let padding = match arg("pad_value") {
        Some(Arg::Lambda(_)) => Padding::Computed,
        Some(arg) => constant(arg).map_or(Padding::Any, Padding::Value),
        None => Padding::Any,
    };
    Change::Map { from, to, map: map.map_rvs(&number), padding }
}

fn constant(arg: &Arg) -> Option<f64> {
    match arg {
        Arg::Int(v) => Some(*v as f64),
        Arg::Float(v) => Some(*v),
        Arg::Bool(v) => Some(f64::from(u8::from(*v))),
        Arg::Typed(_, inner) => constant(inner),
        _ => None,
    }
}

/// The place of each element after the change, and the number of places.
fn places(change: &Change) -> Result<(Vec<usize>, usize), String> {
    let (from, to, map) = match change {
        Change::Map { from, to, map, .. } => (from, to, map),
        Change::Unknown(why) => return Err(why.clone()),
    };
    let count = |shape: &[i64]| shape.iter().map(|&n| usize::try_from(n).unwrap_or(0)).product::<usize>();
    let n = count(to);
    let mut indices = vec![0i64; from.len()];
    let mut places = Vec::with_capacity(count(from));
    for _ in 0..count(from) {
        let mapped = map.eval(&indices).filter(|m| m.len() == to.len());
        let place = mapped.and_then(|m| {
            m.iter().zip(to).try_fold(0usize, |at, (&i, &n)| {
                let inside = usize::try_from(i).ok().filter(|_| i < n)?;
                Some(at * n as usize + inside)
            })
        });
        places.push(place.ok_or("the index map cannot be computed for all elements")?);
        for (i, &n) in indices.iter_mut().zip(from).rev() {
            *i += 1;
            if *i < n {
                break;
            }
            *i = 0;
        }
    }
    Ok((places, n))
}
