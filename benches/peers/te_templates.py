"""Tunes templates of AutoTVM: those of tests/te_schedules/templates.py, each in its own space.

    python benches/peers/te_templates.py target/release/tvmr [--trials N] [NAME ...]

Prints for each template the number of its candidates as AutoTVM counts them, the candidates that were tried, that failed and that
were rejected, and the time of the program as written and of the best candidate. Candidates with wrong results, and another number of
candidates, are errors.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

TEMPLATES = pathlib.Path(__file__).resolve().parents[2] / "tests" / "te_schedules" / "templates.py"

# Each template with its arguments, and the number of candidates that AutoTVM lists for them: the product over the knobs.
CASES = {
    "matmul": ("512,512,512,float32", 10 * 10),
    "conv2d_nchw": ("1,64,56,56,64,3", 7 * 8 * 8 * 7 * 3),
    "depthwise_conv2d": ("64,56,56,3", 7 * 8 * 4),
    "dense": ("128,512,256", 36 * 45 * 10 * 2),
    "batch_matmul": ("8,64,64,64", 5 * 7 * 2),
    "gemv": ("1024,1024", 4 * 5),
    "reduction": ("1024,1024", 3),
    "softmax": ("256,512", 9 * 2),
    "transpose": ("1024,768", 7 * 12 * 8),
    "vector_add": ("1048576", 3),
}


def run(command, *args):
    done = subprocess.run([command, *args], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(args)}\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--trials", type=int, default=16)
    options = parser.parse_args()
    wrong = []
    print(f"{'template':18} {'candidates':>12} {'tried':>6} {'failed':>6} {'rejected':>8} {'written, us':>12} {'best, us':>12}")
    for name, (args, candidates) in CASES.items():
        if options.names and name not in options.names:
            continue
        of = [str(TEMPLATES), "--func", name, "--args", args, "--format", "json"]
        space = run(options.command, "space", *of)
        if space["combinations"] != candidates:
            wrong.append(f"{name}: {space['combinations']} candidates instead of {candidates}")
        with tempfile.TemporaryDirectory() as folder:
            document = run(options.command, "tune", *of, "--trials", str(options.trials), "--work-dir", folder)
        if any("wrong" in kind for kind in document["errors"]):
            wrong.append(f"{name}: {document['errors']}")
        times = " ".join(f"{document[key]:12.1f}" for key in ("baseline_us", "best_us"))
        failed = document["trials"] - document["valid"]
        print(f"{name:18} {space['combinations']:12} {document['trials']:6} {failed:6} {document['rejected']:8} {times}")
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
