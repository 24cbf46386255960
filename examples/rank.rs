use std::time::Instant;
use tvmr::measure::Runner;
use tvmr::schedule::Schedule;
use tvmr::script::{ParseOptions, parse};
use tvmr::search::{
    Proposer, Strategy,
    features::{Features, Machine, names},
};
use tvmr::space::{Rules, generate};
use tvmr::target::Target;
use tvmr::tune::Interrupt;
use tvmr::tune::backend::Backend;
use tvmr::tune::config::Setting;
use tvmr::tune::native::Native;
use tvmr::tune::workload::Workload;

fn main() {
    let target = Target::native().target;
    let isa = target.best_isa();
    let setting = Setting { isa, target: target.clone(), threads: 1, strict_fp: false, check: false };
    let native = Native::new(&setting, None, &Interrupt::new()).unwrap();
    let machine = Machine::of(&target, isa, false, 1);
    let n: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let verbose = std::env::var("V").is_ok();
    for name in std::env::args().skip(2) {
        let text = std::fs::read_to_string(format!("workloads/{name}.tir")).unwrap();
        let module = parse(&text, &name, &ParseOptions::default()).unwrap_or_else(|e| panic!("{e}")).module;
        let w = Workload::of(&module, 0);
        let space = generate(&w.module, 0, Rules::auto(tvmr::space::Machine::new(&target, isa, 1))).unwrap();
        let mut p = Proposer::new(Schedule::new(&w.module, 0), 0, space, Strategy::Random, 0);
        let mut s = Vec::new();
        while s.len() < n && !p.is_exhausted() {
            s.extend(p.round(n - s.len(), 1).candidates.into_iter().map(|c| (c.program, c.schedule)));
        }
        let mut lab = native.open(&w).unwrap();
        let t0 = Instant::now();
        let fs: Vec<Features> = s.iter().map(|(_, s)| Features::of(s.func(0), &machine)).collect();
        let per = t0.elapsed().as_secs_f64() * 1e6 / s.len() as f64;
        let mut rows = Vec::new();
        for ((prog, s), f) in s.iter().zip(&fs) {
            let Ok(c) = native.compile(*prog, s.func(0)) else { continue };
            let m = lab.measure(&c.code);
            if let tvmr::measure::Outcome::Measured(m) = m {
                rows.push((f.estimate, m.secs, f, s));
            }
        }
        let (mut good, mut all) = (0.0, 0.0);
        for i in 0..rows.len() {
            for j in 0..i {
                let (a, b) = (&rows[i], &rows[j]);
                if (a.1 / b.1).ln().abs() < 0.03 {
                    continue;
                }
                all += 1.0;
                if (a.0 < b.0) == (a.1 < b.1) {
                    good += 1.0;
                }
            }
        }
        rows.sort_by(|a, b| a.1.total_cmp(&b.1));
        let best = rows[0].1;
        let mut by = rows.iter().enumerate().collect::<Vec<_>>();
        by.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let top8 = by.iter().take(8).map(|x| x.1.1).fold(f64::MAX, f64::min) / best;
        let recall = by.iter().take(8).filter(|x| x.0 < 8).count();
        println!(
            "{name}: {} rows, {per:.0} us/features, pairs {:.3}, best of top 8 {:.2}x best, recall {recall}/8, best {:.1} us est {:.1}",
            rows.len(),
            good / all,
            top8,
            best * 1e6,
            rows[0].0 * 1e6
        );
        if verbose {
            for r in rows.iter().take(3).chain(by.iter().take(2).map(|x| x.1)) {
                println!(
                    "  measured {:.1} est {:.1} {}",
                    r.1 * 1e6,
                    r.0 * 1e6,
                    names().iter().zip(&r.2.values).map(|(n, v)| format!("{n}={v:.2}")).collect::<Vec<_>>().join(" ")
                );
                println!(
                    "     {}",
                    r.3.trace().decisions().map(|(_, d)| format!("{d:?}")).collect::<Vec<_>>().join(" ")
                );
            }
        }
    }
}
