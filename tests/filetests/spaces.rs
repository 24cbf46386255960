//! Kind `space`: the sketches that the default rules make of a program, for a machine with 512-bit vectors, and caches
//! of 48 KiB and 1 MiB; `threads N` sets the number of threads of a kernel. The output names the blocks about which there
//! is nothing to choose; then, for each sketch, in the order of `tvmr space`, it has the number of seeds, the decisions of
//! the first one, and its program, reduced to loops, blocks and predicates.

use super::{Case, Outcome};
use std::fmt::Write;
use tvmr::machine::{Arch, Core, Isa, VectorUnit};
use tvmr::schedule::Schedule;
use tvmr::schedule::arg::Decision;
use tvmr::script::{Dialect, ParseOptions, parse, print_module};
use tvmr::space::sample::stream;
use tvmr::space::{Rules, generate};

pub(crate) fn space(case: &Case) -> Outcome {
    let name = case.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let module = parse(&case.input, &name, &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
    let threads = case.options.threads.max(1);
    let vectors = VectorUnit::new(Isa::Avx512, Arch::X86_64);
    let machine = Core { vectors, l1: 48 << 10, l2: 1 << 20, last_level: 1 << 20, line: 64, threads };
    let space = generate(&module, 0, Rules::auto(machine), &tvmr::stop::StopFlag::new())
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let base = Schedule::new(&module, 0);
    let mut output = String::new();
    for left in space.no_choices() {
        let _ = writeln!(output, "nothing to choose for `{}`: {}", left.block, left.reason);
    }
    for index in 0..space.sketches().len() {
        let seeds: Vec<_> = space.seeds().iter().filter(|s| s.sketch == index).collect();
        let first = seeds.first().unwrap_or_else(|| panic!("{name}: sketch {index} has no seed"));
        let decisions: Vec<Decision> = first.trace.decisions().map(|(_, d)| d.clone()).collect();
        let schedule = space.build(&base, index, &decisions, stream(0, 0));
        let schedule = schedule.unwrap_or_else(|r| panic!("{name}: sketch {index}: {}: {}", r.by, r.message));
        let n = seeds.len();
        let _ = writeln!(output, "sketch {}: {n} seed{}, decisions {}", index + 1, plural(n), list(&decisions));
        for line in print_module(&schedule.module(), Dialect::Classic).lines() {
            let text = line.trim_start();
            if ["for ", "with T.block", "T.where"].iter().any(|k| text.starts_with(k)) {
                output += line.strip_prefix("    ").unwrap_or(text);
                output.push('\n');
            }
        }
    }
    Outcome { output, rejections: Vec::new() }
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

fn list(decisions: &[Decision]) -> String {
    let texts = decisions.iter().map(|d| match d {
        Decision::Int(i) => i.to_string(),
        Decision::Ints(all) => format!("{all:?}"),
    });
    format!("[{}]", texts.collect::<Vec<_>>().join(", "))
}
