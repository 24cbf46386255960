//! Removes instructions without effect from traces.

use super::{Instruction, Trace};
use crate::schedule::arg::Rv;
use hashbrown::HashSet;

impl Trace {
    /// The trace without queries and samplings whose results are unused, like TVM's `Trace.simplified`. It gives the
    /// same program; its samplings use other positions of the random stream, so its decisions must be given.
    pub fn simplified(&self) -> Trace {
        let mut used: HashSet<Rv> = HashSet::new();
        let mut kept: Vec<Instruction> = Vec::with_capacity(self.insts.len());
        for inst in self.insts.iter().rev() {
            // Queries and samplings change nothing.
            let pure = inst.kind.samples || inst.kind.name.starts_with("Get");
            if pure && !inst.outputs.iter().any(|rv| used.contains(rv)) {
                continue;
            }
            inst.args.iter().for_each(|a| {
                a.for_each_rv(&mut |rv| {
                    used.insert(rv);
                });
            });
            kept.push(inst.clone());
        }
        kept.reverse();
        Trace { insts: kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Dialect;

    #[test]
    fn unused_look_ups_and_draws_go() {
        let text = "b0 = sch.get_sblock(name=\"C\")
b1 = sch.get_sblock(name=\"D\")
l2, l3 = sch.get_loops(block=b0)
l4, l5 = sch.get_loops(block=b1)
v6, v7 = sch.sample_perfect_tile(loop=l2, n=2)
v8 = sch.sample_categorical(candidates=[1, 2], probs=[0.5, 0.5])
sch.annotate(block_or_loop=b1, ann_key=\"k\", ann_val=[v8 + 1])
";
        let trace = Trace::from_python(text, "t.py").expect("it is a trace");
        assert_eq!(
            trace.simplified().python_statements(Dialect::Current),
            [
                "b0 = sch.get_sblock(name=\"D\", func_name=None)",
                "v1 = sch.sample_categorical(candidates=[1, 2], probs=[0.5, 0.5])",
                "sch.annotate(block_or_loop=b0, ann_key=\"k\", ann_val=[v1 + 1])",
            ]
        );
    }
}
