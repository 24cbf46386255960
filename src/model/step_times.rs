//! How long the steps of a call take.
//!
//! A kernel of some dozen nanoseconds cannot be timed by itself: the clock is as slow, and its reading waits for what the processor
//! would else overlap with the next kernel. So a short step runs many times in a row, and the time of the whole row is divided.

use super::executable::{Call, ModelError};
use crate::measure::Timer;

/// Steps that take at least this long are timed by themselves: the clock adds a few percent at most, and that is subtracted.
const LONG_SECS: f64 = 1e-6;
/// A row of short steps takes about this long: some hundred readings of the clock.
const ROW_SECS: f64 = 1e-5;
/// The most steps of a row.
const LONGEST_ROW: u32 = 4096;

/// How many times each step runs in a row to be timed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rows(Vec<u32>);

impl Call<'_> {
    /// Runs the model once, and finds how many times each step must run in a row so that its time can be told. One reading of the
    /// clock takes `reading` seconds ([`reading_secs`](crate::measure::reading_secs)).
    ///
    /// # Errors
    /// A kernel fails.
    pub fn rows(&mut self, timer: &dyn Timer, reading: f64) -> Result<Rows, ModelError> {
        let mut rows = Vec::with_capacity(self.model.program().steps.len());
        for (i, step) in self.model.program().steps.iter().enumerate() {
            let mut n = 1;
            let mut secs = self.time_row(i, n, timer, reading)?;
            let is_short = secs < LONG_SECS && !step.overwrites;
            while is_short && secs < ROW_SECS && n < LONGEST_ROW {
                n *= 2;
                secs = self.time_row(i, n, timer, reading)?;
            }
            rows.push(n);
        }
        self.copy();
        Ok(Rows(rows))
    }

    /// Runs the model once, but each step as many times in a row as `rows` says, and gives the seconds of each step. The time that
    /// reading the clock takes is subtracted.
    ///
    /// # Errors
    /// A kernel fails.
    pub fn time_steps(&mut self, rows: &Rows, timer: &dyn Timer, reading: f64) -> Result<Vec<f64>, ModelError> {
        let mut times = Vec::with_capacity(rows.0.len());
        for (i, &n) in rows.0.iter().enumerate() {
            times.push(self.time_row(i, n, timer, reading)? / f64::from(n));
        }
        self.copy();
        Ok(times)
    }

    fn time_row(&mut self, step: usize, n: u32, timer: &dyn Timer, reading: f64) -> Result<f64, ModelError> {
        let start = timer.now();
        self.repeat_steps(step..step + 1, n)?;
        Ok(((timer.now() - start).as_secs_f64() - reading).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::Array;
    use crate::graph::pass::{Context, GraphModule};
    use crate::measure::MockTimer;
    use crate::model::Model;
    use crate::script::{ParseOptions, parse};
    use crate::workload::Setting;

    /// The second call overwrites what the first one gave.
    const TEXT: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def square(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] * A[vi]

    @T.prim_func(private=True, s_tir=True)
    def double(A: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("A"):
                vi = T.axis.spatial(4, i)
                A[vi] = A[vi] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Module
        a = R.call_tir(cls.square, (x,), out_ty=R.Tensor((4,), "float32"))
        b = R.call_tir_inplace(cls.double, (a,), inplace_indices=[0], out_ty=R.Tensor((4,), "float32"))
        return b
"#;

    #[test]
    fn short_steps_run_in_rows_unless_they_overwrite() {
        let parsed = parse(TEXT, "model.tir", &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let module = GraphModule { module: parsed.module, functions: parsed.graphs };
        let model = Model::compile(module, "main", &Context::default(), &Setting::native());
        let model = model.unwrap_or_else(|e| panic!("{e}"));
        let mut call = model.bind(&[Array::from(&[1.0f32, 2.0, 3.0, 4.0][..])]).unwrap_or_else(|e| panic!("{e}"));
        // A clock that stands still: every step is short.
        let timer = MockTimer::new();
        let rows = call.rows(&timer, 0.0).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(rows, Rows(vec![LONGEST_ROW, 1]));
        let times = call.time_steps(&rows, &timer, 0.0).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(times, [0.0, 0.0]);
        let outputs = call.outputs().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(outputs, [Array::from(&[2.0f32, 8.0, 18.0, 32.0][..])]);
    }
}
