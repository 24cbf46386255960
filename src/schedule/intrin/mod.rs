//! Tensor intrinsics: what `tensorize` puts in the place of a computation.
//!
//! An intrinsic is a pair of functions over the same parameters. Its *description* says what is computed, as a nest of
//! loops and blocks; its *implementation* says how. Both are TVMScript: in a file of intrinsics, `dot4_desc` and
//! `dot4_impl` are the intrinsic `dot4`. [`Intrinsics::register_text`] checks the pair by running both in the interpreter
//! on random data, so that an implementation that computes something else never gets into a program.

mod graft;

pub use graft::Graft;

use crate::diagnostic::Diagnostics;
use crate::ir::interp::{Arg, Options, Tensor, Value, run};
use crate::ir::{DType, Func, Symbol};
use crate::script::{ParseOptions, parse};
use std::fmt;
use std::sync::{Arc, LazyLock};

/// A description with its implementation.
#[derive(Clone)]
pub struct TensorIntrin {
    /// The name that schedules use.
    pub name: Symbol,
    /// What is computed.
    pub description: Func,
    /// How.
    pub implementation: Func,
}

/// The intrinsics that a schedule knows.
#[derive(Clone, Default)]
pub struct Intrinsics {
    table: Vec<TensorIntrin>,
}

/// Why intrinsics were not registered.
#[derive(Clone, Debug)]
pub enum IntrinError {
    /// The text does not parse.
    Text(Box<Diagnostics>),
    /// The pair does not fit together.
    Pair {
        /// The intrinsic, or the function that belongs to none.
        name: Symbol,
        /// What is wrong.
        problem: String,
    },
}

impl fmt::Display for IntrinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntrinError::Text(d) => d.fmt(f),
            IntrinError::Pair { name, problem } => write!(f, "intrinsic `{name}`: {problem}"),
        }
    }
}

impl std::error::Error for IntrinError {}

/// The table of built-in intrinsics: portable loops whose implementations the code generator turns into vector code.
const BUILT_IN: &str = r#"
@T.prim_func
def fma_8_f32_desc(a: T.Buffer((8,), "float32"), b: T.Buffer((1,), "float32"), c: T.Buffer((8,), "float32")):
    with T.block("root"):
        T.reads(c[0:8], a[0:8], b[0])
        T.writes(c[0:8])
        for i in range(8):
            with T.block("fma"):
                vi = T.axis.spatial(8, i)
                c[vi] = c[vi] + b[0] * a[vi]

@T.prim_func
def fma_8_f32_impl(a: T.Buffer((8,), "float32"), b: T.Buffer((1,), "float32"), c: T.Buffer((8,), "float32")):
    with T.block("root"):
        T.reads(c[0:8], a[0:8], b[0])
        T.writes(c[0:8])
        for i in T.vectorized(8):
            with T.block("fma"):
                vi = T.axis.spatial(8, i)
                c[vi] = c[vi] + b[0] * a[vi]

@T.prim_func
def dot_4_i8_desc(a: T.Buffer((4,), "uint8"), b: T.Buffer((4,), "int8"), c: T.Buffer((1,), "int32")):
    with T.block("root"):
        T.reads(c[0], a[0:4], b[0:4])
        T.writes(c[0])
        for k in range(4):
            with T.block("dot"):
                vk = T.axis.reduce(4, k)
                c[0] = c[0] + T.Cast("int32", a[vk]) * T.Cast("int32", b[vk])

@T.prim_func
def dot_4_i8_impl(a: T.Buffer((4,), "uint8"), b: T.Buffer((4,), "int8"), c: T.Buffer((1,), "int32")):
    with T.block("root"):
        T.reads(c[0], a[0:4], b[0:4])
        T.writes(c[0])
        c[0] = c[0] + (T.Cast("int32", a[0]) * T.Cast("int32", b[0]) + T.Cast("int32", a[1]) * T.Cast("int32", b[1]) + T.Cast("int32", a[2]) * T.Cast("int32", b[2]) + T.Cast("int32", a[3]) * T.Cast("int32", b[3]))
"#;

impl Intrinsics {
    /// The built-in intrinsics.
    pub fn built_in() -> Arc<Intrinsics> {
        static TABLE: LazyLock<Arc<Intrinsics>> = LazyLock::new(|| {
            let mut table = Intrinsics::default();
            table.register_text(BUILT_IN, "built-in intrinsics").expect("the built-in intrinsics are right");
            Arc::new(table)
        });
        TABLE.clone()
    }

    /// The intrinsic of that name.
    pub fn get(&self, name: Symbol) -> Option<&TensorIntrin> {
        self.table.iter().find(|i| i.name == name)
    }

    /// The names of all intrinsics, in the order of registration.
    pub fn names(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.table.iter().map(|i| i.name)
    }

    /// Registers the intrinsics of a text, each in the place of one of the same name. `file_name` is only shown in
    /// messages.
    ///
    /// # Errors
    /// If the text does not parse, a function has no counterpart, or description and implementation do not compute the
    /// same; then nothing is registered.
    pub fn register_text(&mut self, text: &str, file_name: &str) -> Result<(), IntrinError> {
        let parsed = parse(text, file_name, &ParseOptions::default()).map_err(|d| IntrinError::Text(Box::new(d)))?;
        let funcs = parsed.module.funcs;
        let mut new = Vec::new();
        for f in &funcs {
            let fail = |problem: &str| Err(IntrinError::Pair { name: f.name, problem: problem.to_string() });
            let (stem, is_description) = match f.name.as_str().strip_suffix("_desc") {
                Some(stem) => (stem, true),
                None => match f.name.as_str().strip_suffix("_impl") {
                    Some(stem) => (stem, false),
                    None => return fail("a function is called `…_desc` or `…_impl`"),
                },
            };
            let other = format!("{stem}{}", if is_description { "_impl" } else { "_desc" });
            let Some(other) = funcs.iter().find(|g| g.name == other.as_str()) else {
                return fail(&format!("there is no function `{other}`"));
            };
            if is_description {
                let intrin = TensorIntrin { name: stem.into(), description: f.clone(), implementation: other.clone() };
                intrin.check().map_err(|problem| IntrinError::Pair { name: stem.into(), problem })?;
                new.push(intrin);
            }
        }
        for intrin in new {
            self.table.retain(|i| i.name != intrin.name);
            self.table.push(intrin);
        }
        Ok(())
    }
}

impl TensorIntrin {
    /// Do both take the same buffers, and give the same results on random data?
    fn check(&self) -> Result<(), String> {
        let (p, q) = (shapes(&self.description)?, shapes(&self.implementation)?);
        if p != q {
            return Err("description and implementation take different parameters".to_string());
        }
        for seed in 0..4 {
            let mut expected = arguments(&p, seed);
            let mut found = expected.clone();
            let options = Options { max_steps: 10_000_000, ..Options::default() };
            run(&self.description, &mut expected, options)
                .map_err(|e| format!("the description fails: {:?}", e.fault))?;
            run(&self.implementation, &mut found, options)
                .map_err(|e| format!("the implementation fails: {:?}", e.fault))?;
            let values =
                |args: &[Arg]| args.iter().filter_map(Arg::tensor).flat_map(Tensor::to_f64s).collect::<Vec<_>>();
            let close = |x: f64, y: f64| x == y || (x - y).abs() <= 1e-3 * x.abs().max(1.0);
            if !values(&expected).into_iter().zip(values(&found)).all(|(x, y)| close(x, y)) {
                return Err("description and implementation compute different results".to_string());
            }
        }
        Ok(())
    }
}

/// Types and shapes of the parameters.
fn shapes(f: &Func) -> Result<Vec<(DType, Vec<i64>)>, String> {
    f.params
        .iter()
        .map(|p| {
            let buffer = f.arena.buffer(p.buffer.ok_or("a parameter is no buffer")?);
            let shape = f.arena.list(buffer.shape).iter().map(|&e| f.arena.as_int(e)).collect::<Option<Vec<i64>>>();
            Ok((buffer.dtype, shape.ok_or("a shape is not constant")?))
        })
        .collect()
}

fn arguments(shapes: &[(DType, Vec<i64>)], seed: u64) -> Vec<Arg> {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 40
    };
    shapes
        .iter()
        .map(|(dtype, shape)| {
            let values = std::iter::repeat_with(|| match dtype.is_float() {
                true => Value::Float(next() as f64 / f64::from(1u32 << 23) - 1.0),
                false => Value::Int((next() % 100) as i64),
            });
            Arg::Tensor(Tensor::from_values(*dtype, shape, values))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_is_right() {
        assert!(Intrinsics::built_in().get("fma_8_f32".into()).is_some());
    }

    #[test]
    fn a_wrong_implementation_is_refused() {
        let text = BUILT_IN.replace(
            "c[vi] = c[vi] + b[0] * a[vi]\n\n@T.prim_func\ndef dot",
            "c[vi] = b[0] * a[vi]\n\n@T.prim_func\ndef dot",
        );
        assert_ne!(text, BUILT_IN);
        let error = Intrinsics::default().register_text(&text, "t").expect_err("it computes something else");
        assert!(error.to_string().contains("different results"), "{error}");
        let alone = BUILT_IN.split("@T.prim_func\ndef fma_8_f32_impl").next().unwrap_or_default();
        let error = Intrinsics::default().register_text(alone, "t").expect_err("it has no implementation");
        assert!(error.to_string().contains("no function `fma_8_f32_impl`"), "{error}");
    }
}
