//! Examples and exit codes, shown at the end of `--help`.
//!
//! The examples are tested: each must be a command line that the argument parser accepts.

/// The end of each help text. docs/tuning.md lists the exit codes as well.
macro_rules! with_exit_codes {
    ($examples:literal) => {
        concat!(
            "Examples:\n",
            $examples,
            "\n\
Exit codes:
  0  done
  1  nothing valid was found, a check failed, or there is no record
  2  bad usage or bad input
  3  the system failed: disk, lock, memory, permission
  129, 130, 143  ended by a signal: hangup, Ctrl-C, termination"
        )
    };
}

/// The commands grouped by purpose; a test compares the list with the definition of the arguments.
pub(super) const TEMPLATE: &str = "\
{about}

{usage-heading} {usage}

Find schedules:
  tune         Search for the fastest schedule of each function, and keep what was measured
  space        Print the search space of each function

Use them:
  apply-best   Print a program with each function replaced by its best known version
  print-trace  Print the best known schedule of a function
  bench        Check and time a program
  run          Run a function on arrays from files
  apply        Apply a schedule to a program
  emit         Print a program at a stage of the code generator
  ops          List the operators of graphs
  import       Write an ONNX model as text, and its weights beside it
  build        Build native code of a program: object, libraries, wrappers

Maintain files and the database:
  check        Check that programs are well formed and make sense
  fmt          Reprint programs in canonical form
  db           Maintain the database
  help         Print this, or the help of a command

{options}

{after-help}";

pub(super) const TVMR: &str = with_exit_codes!(
    "  tvmr tune matmul.tir                     find a fast schedule
  tvmr apply-best matmul.tir               print the program with it applied
  tvmr bench matmul.tir --best             check it and time it again
"
);

pub(super) const TUNE: &str = with_exit_codes!(
    "  tvmr tune matmul.tir
  tvmr tune matmul.tir --trials 256 --max-seconds 60 --threads all
  tvmr tune matmul.tir --space my_space.py --work-dir mine
  tvmr tune model.tir --bind n=1024 --format json
  tvmr tune matmul_add.py --func matmul_add --args 1024,1024,1024,float32
"
);

pub(super) const SPACE: &str = with_exit_codes!(
    "  tvmr space matmul.tir
  tvmr space matmul.tir --space tvm --samples 256
  tvmr space matmul.tir --seeds --format json
"
);

pub(super) const APPLY_BEST: &str = with_exit_codes!(
    "  tvmr apply-best matmul.tir
  tvmr apply-best matmul.tir -o fast.tir
  tvmr apply-best matmul.tir --threads 1 --frozen
"
);

pub(super) const PRINT_TRACE: &str = with_exit_codes!(
    "  tvmr print-trace matmul.tir
  tvmr print-trace matmul.tir --rank 2
  tvmr print-trace matmul.tir --format json
"
);

pub(super) const BENCH: &str = with_exit_codes!(
    "  tvmr bench matmul.tir
  tvmr bench matmul.tir --best --format json
  tvmr bench matmul.tir --trace schedule.py --threads 2
  tvmr bench model.tir --shape x=1,3,224,224 --best --profile
"
);

pub(super) const RUN: &str = with_exit_codes!(
    "  tvmr run matmul.tir --input A=a.npy --input B=b.npy --output C=c.npy
  tvmr run matmul.tir --best --inputs in.npz --output out.safetensors
  tvmr run matmul.tir --inputs in.npz --expect out.npz --rtol 1e-5 --atol 1e-6
  tvmr run matmul.tir --random --repeat 100 --format json
"
);

pub(super) const IMPORT: &str = with_exit_codes!(
    "  tvmr import model.onnx -o model.tir
"
);

pub(super) const EMIT: &str = with_exit_codes!(
    "  tvmr emit matmul.tir --stage loopir
  tvmr emit matmul.tir --best --stage passes
  tvmr emit matmul.tir --trace schedule.py --stage after:vectorize
  tvmr emit matmul.tir --best --stage asm --isa avx2
  tvmr emit matmul_add.py --args 64,64,64,float32 --stage dag
"
);

pub(super) const BUILD: &str = with_exit_codes!(
    "  tvmr build matmul.tir -o build/matmul
  tvmr build matmul.tir -o build/matmul --emit shared,header,python --frozen
  tvmr build dynamic.tir -o build/dynamic --bind n=1..8,16,32 --emit static,header
  tvmr build model.tir -o build/model --external-weights build/model.weights
  tvmr build model.onnx -o build/model --shape x=1,3,48,160 --shape x=1,3,48,320
"
);

pub(super) const APPLY: &str = with_exit_codes!(
    "  tvmr apply matmul.tir --trace schedule.py
  tvmr apply matmul.tir --trace schedule.py --steps --check
  tvmr apply matmul.tir --trace trace.json -o scheduled.tir
"
);

pub(super) const OPS: &str = with_exit_codes!(
    "  tvmr ops
  tvmr ops conv
  tvmr ops --format json
"
);

pub(super) const CHECK: &str = with_exit_codes!(
    "  tvmr check matmul.tir
  tvmr check a.tir b.tir --format json
  tvmr check dynamic.tir --bind n=1024
"
);

pub(super) const FMT: &str = with_exit_codes!(
    "  tvmr fmt matmul.tir
  tvmr fmt --write a.tir b.tir
  tvmr fmt --check a.tir b.tir
"
);

pub(super) const DB: &str = with_exit_codes!(
    "  tvmr db list
  tvmr db top 0 -k 3
  tvmr db verify --work-dir mine
  tvmr db merge ../laptop/tvmr_db
  tvmr db import matmul_add.json --workload matmul_add.py
  tvmr db prune --best 3
"
);
