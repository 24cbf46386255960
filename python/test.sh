#!/usr/bin/env bash
# Lints, builds and tests the Python package, where there is a Python for it. Builds share the target directory.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
python=${PYTHON:-python3}

skip() {
  echo "skipped: $*"
  exit 0
}

command -v "$python" >/dev/null || skip "there is no Python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "the package needs Python 3.10"
venv=$target/python-venv
if ! [ -x "$venv/bin/maturin" ]; then
  "$python" -m venv --clear "$venv" || skip "Python cannot make a virtual environment"
  "$venv/bin/pip" --disable-pip-version-check install --quiet 'maturin>=1.9,<2' 'numpy>=1.26' 'pytest>=8' 'ml_dtypes>=0.4' ||
    skip "pip cannot install what the tests need"
fi

PYO3_PYTHON=$venv/bin/python cargo clippy -p tvmr-python --all-targets -- -D warnings
VIRTUAL_ENV=$venv CARGO_TARGET_DIR=$target "$venv/bin/maturin" develop --quiet --manifest-path python/Cargo.toml
"$venv/bin/python" -m pytest -q python
