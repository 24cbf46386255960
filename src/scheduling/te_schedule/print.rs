//! Prints a schedule of tensor expressions, as the auto-scheduler's `print_best` did.
//!
//! ```text
//! def schedule(A, B, C):
//!     s = te.create_schedule([C.op])
//!     C_i, C_j = tuple(C.op.axis) + tuple(C.op.reduce_axis)
//!     C_i_o, C_i_i = s[C].split(C_i, factor=8)
//!     s[C].parallel(C_i_o)
//!     return s
//! ```

use super::axis::{AxisId, Size};
use super::cached::Cache;
use super::note::{LoopUse, Note};
use super::relation::Relation;
use super::stage::{Definition, StageId, Stages};
use super::{Attach, Mistake};
use crate::schedule::arg::Arg;
use hashbrown::{HashMap, HashSet};
use std::fmt::Write;

impl Stages {
    /// The schedule as a function of the program's tensors.
    ///
    /// # Errors
    /// A call has no form as text: an intrinsic would have to be an object.
    pub fn to_python(&self) -> Result<String, Mistake> {
        let mut printer = Printer {
            stages: self,
            names: HashSet::new(),
            tensors: HashMap::new(),
            axes: HashMap::new(),
            lines: Vec::new(),
            schedule: String::new(),
        };
        printer.print()
    }
}

struct Printer<'a> {
    stages: &'a Stages,
    /// All names in use.
    names: HashSet<String>,
    tensors: HashMap<StageId, String>,
    axes: HashMap<AxisId, String>,
    lines: Vec<String>,
    /// The name of the schedule.
    schedule: String,
}

impl Printer<'_> {
    fn print(&mut self) -> Result<String, Mistake> {
        let stages = self.stages;
        // Parameters have the names of the program's tensors, by which they are found.
        let is_defined = |s: &StageId| !matches!(stages.stage(*s).definition, Definition::Cache(_));
        let defined: Vec<StageId> = stages.ids().filter(is_defined).collect();
        for &id in &defined {
            let name = stages.stage(id).name.clone();
            if !self.names.insert(name.clone()) {
                return Err(Mistake::new(format!("several blocks compute `{name}`, which is no tensor of one stage")));
            }
            self.tensors.insert(id, name);
        }
        self.schedule = self.fresh("s");
        let outputs = stages.ids().filter(|&s| stages.stage(s).is_output);
        let outputs: Vec<String> = outputs.map(|s| format!("{}.op", self.tensors[&s])).collect();
        self.lines.push(format!("{} = te.create_schedule([{}])", self.schedule, outputs.join(", ")));
        for id in stages.ids() {
            if let Definition::Cache(cache) = &stages.stage(id).definition {
                self.cache(id, cache);
            }
        }
        for (stage, map) in &stages.layouts {
            let name = &self.tensors[stage];
            self.lines.push(format!("# The layout of {name} is not part of this schedule: {map}"));
        }
        let order = stages.consumers_first();
        for &id in &order {
            let stage = stages.stage(id);
            let is_parent = || stages.ids().any(|s| matches!(stages.stage(s).attach.0, Attach::At(p, _) if p == id));
            if !(stage.relations.is_empty() && stage.notes.is_empty()) || is_parent() {
                let axes = stage.axes.clone();
                self.define_axes(id, &axes);
            }
            for (relation, _) in &stage.relations {
                self.relation(id, relation);
            }
        }
        // Producers first: where a stage is computed may be said in any order, and reads best like the program.
        for &id in order.iter().rev() {
            let target = format!("{}[{}]", self.schedule, self.tensors[&id]);
            match stages.stage(id).attach.0 {
                Attach::Root => {}
                Attach::Inline => self.lines.push(format!("{target}.compute_inline()")),
                Attach::At(parent, axis) => {
                    let (s, parent, axis) = (&self.schedule, &self.tensors[&parent], self.axis(axis));
                    self.lines.push(format!("{target}.compute_at({s}[{parent}], {axis})"));
                }
            }
        }
        for &id in order.iter().rev() {
            for (note, _) in &stages.stage(id).notes {
                self.note(id, note)?;
            }
        }
        let params: Vec<&str> = defined.iter().map(|s| stages.stage(*s).name.as_str()).collect();
        let mut text = format!("from tvm import te\n\n\ndef schedule({}):\n", params.join(", "));
        for line in &self.lines {
            let _ = writeln!(text, "    {line}");
        }
        let _ = writeln!(text, "    return {}", self.schedule);
        Ok(text)
    }

    /// A name that is not in use yet.
    fn fresh(&mut self, wanted: &str) -> String {
        let mut name: String = wanted.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
        if name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() {
            name.insert(0, '_');
        }
        let base = name.clone();
        let mut n = 1;
        while self.names.contains(&name) || name == "te" {
            n += 1;
            name = format!("{base}_{n}");
        }
        self.names.insert(name.clone());
        name
    }

    fn axis(&self, axis: AxisId) -> &str {
        self.axes.get(&axis).map_or("None", String::as_str)
    }

    fn name_axis(&mut self, axis: AxisId, wanted: &str) -> String {
        let name = self.fresh(wanted);
        self.axes.insert(axis, name.clone());
        name
    }

    /// `C_i, C_j, C_k = tuple(C.op.axis) + tuple(C.op.reduce_axis)`
    fn define_axes(&mut self, id: StageId, axes: &[AxisId]) {
        let tensor = self.tensors[&id].clone();
        // A stage that a call has changed is computed by another operation than its tensor's.
        let is_changed = self.stages.ids().any(|s| match &self.stages.stage(s).definition {
            Definition::Cache(Cache::Write { of, .. }) => *of == id,
            Definition::Cache(Cache::Factor(f)) => f.of == id,
            _ => false,
        });
        let op = if is_changed { format!("{}[{tensor}].op", self.schedule) } else { format!("{tensor}.op") };
        let is_reduced = |a: &AxisId| self.stages.axis(*a).is_reduced();
        let sum = match (axes.iter().all(is_reduced), axes.iter().any(is_reduced)) {
            (true, true) => format!("tuple({op}.reduce_axis)"),
            (false, true) => format!("tuple({op}.axis) + tuple({op}.reduce_axis)"),
            _ => format!("tuple({op}.axis)"),
        };
        let stages = self.stages;
        let names: Vec<String> =
            axes.iter().map(|&a| self.name_axis(a, &format!("{tensor}_{}", stages.axis(a).name))).collect();
        match &names[..] {
            [] => {}
            [one] => self.lines.push(format!("{one}, = {sum}")),
            _ => self.lines.push(format!("{} = {sum}", names.join(", "))),
        }
    }

    fn cache(&mut self, id: StageId, cache: &Cache) {
        let stages = self.stages;
        let name = stages.stage(id).name.clone();
        let s = self.schedule.clone();
        let line = match cache {
            Cache::Read { of, scope, readers, .. } => {
                let readers: Vec<&str> = readers.iter().map(|r| self.tensors[r].as_str()).collect();
                format!("{s}.cache_read({}, \"{scope}\", [{}])", self.tensors[of], readers.join(", "))
            }
            Cache::Write { of, scope, .. } => format!("{s}.cache_write({}, \"{scope}\")", self.tensors[of]),
            Cache::Factor(factor) => {
                self.define_axes(factor.of, &factor.axes);
                for (relation, _) in &factor.relations {
                    self.relation(factor.of, relation);
                }
                format!("{s}.rfactor({}, {}, {})", self.tensors[&factor.of], self.axis(factor.axis), factor.dimension)
            }
        };
        let name = self.fresh(&name);
        self.lines.push(format!("{name} = {line}"));
        self.tensors.insert(id, name);
    }

    fn relation(&mut self, id: StageId, relation: &Relation) {
        let target = format!("{}[{}]", self.schedule, self.tensors[&id]);
        match relation {
            Relation::Split { parent, parts, sizes } => self.split(&target, *parent, parts, sizes),
            Relation::Fuse { parts, fused } => {
                let names: Vec<String> = parts.iter().map(|&p| self.axis(p).to_owned()).collect();
                let prefix = format!("{}_", self.tensors[&id]);
                let short = |n: &String| n.strip_prefix(&prefix).unwrap_or(n).to_owned();
                let all: Vec<String> = names.iter().map(short).collect();
                let name = self.name_axis(*fused, &format!("{prefix}{}_fused", all.join("_")));
                self.lines.push(format!("{name} = {target}.fuse({})", names.join(", ")));
            }
            Relation::Reorder(axes) => {
                let names: Vec<&str> = axes.iter().map(|&a| self.axis(a)).collect();
                self.lines.push(format!("{target}.reorder({})", names.join(", ")));
            }
        }
    }

    /// A split into several parts is one into two at a time: the outer ones by their number, then the inner ones by their size.
    fn split(&mut self, target: &str, parent: AxisId, parts: &[AxisId], sizes: &[Option<Size>]) {
        let open = sizes.iter().position(Option::is_none).unwrap_or(0);
        let mut rest = self.axis(parent).to_owned();
        for (i, &part) in parts.iter().enumerate().take(open) {
            let size = sizes[i].as_ref().map_or(1, |s| s.value);
            let outer = self.name_axis(part, &format!("{rest}_o"));
            let wanted = format!("{rest}_i");
            let inner = if i + 2 == parts.len() { self.name_axis(parts[i + 1], &wanted) } else { self.fresh(&wanted) };
            self.lines.push(format!("{outer}, {inner} = {target}.split({rest}, nparts={size})"));
            rest = inner;
        }
        for i in (open + 1..parts.len()).rev() {
            let size = sizes[i].as_ref().map_or(1, |s| s.value);
            let inner = self.name_axis(parts[i], &format!("{rest}_i"));
            let wanted = format!("{rest}_o");
            let outer = if i == open + 1 { self.name_axis(parts[open], &wanted) } else { self.fresh(&wanted) };
            self.lines.push(format!("{outer}, {inner} = {target}.split({rest}, factor={size})"));
            rest = outer;
        }
    }

    fn note(&mut self, id: StageId, note: &Note) -> Result<(), Mistake> {
        let target = format!("{}[{}]", self.schedule, self.tensors[&id]);
        let call = match note {
            Note::Loop(axis, how) => {
                let axis = self.axis(*axis);
                match how {
                    LoopUse::Parallel => format!("parallel({axis})"),
                    LoopUse::Vectorize => format!("vectorize({axis})"),
                    LoopUse::Unroll => format!("unroll({axis})"),
                    LoopUse::Bind(thread) => format!("bind({axis}, te.thread_axis(\"{thread}\"))"),
                }
            }
            Note::Pragma(axis, key, value) => {
                let value = match value {
                    // TVM's own schedules say it so.
                    Arg::Int(1) if key == "unroll_explicit" => "True".to_owned(),
                    Arg::Int(v) => v.to_string(),
                    Arg::Float(v) => format!("{v:?}"),
                    Arg::Bool(v) => if *v { "True" } else { "False" }.to_owned(),
                    Arg::Str(v) => format!("{:?}", v.as_str()),
                    _ => return Err(Mistake::new(format!("the value of the pragma `{key}` is no constant"))),
                };
                format!("pragma({}, \"{key}\", {value})", self.axis(*axis))
            }
            Note::StorageAlign(dimension, factor, offset) => {
                let axis = self.stages.stage(id).axes.get(*dimension).map_or("None", |&a| self.axis(a));
                format!("storage_align({axis}, {factor}, {offset})")
            }
            Note::Scope(scope) => format!("set_scope(\"{scope}\")"),
            Note::Tensorize(_, intrinsic) => {
                return Err(Mistake::new(format!("`tensorize` takes an object, and `{intrinsic}` is a name")));
            }
        };
        self.lines.push(format!("{target}.{call}"));
        Ok(())
    }
}
