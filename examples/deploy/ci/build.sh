#!/usr/bin/env bash
# Builds a library from the records of a database that is kept with the sources. `--frozen` never tunes, and fails with exit code 1
# and the names of the functions that have no record for this machine.
set -euo pipefail
cd "$(dirname "$0")/.."

tvmr=${TVMR:-tvmr}
database=${1:-tvmr_db}
out=${2:-ci/build}

if ! "$tvmr" build matmul.tir -o "$out/kernels" --work-dir "$database" --emit shared,header,manifest --frozen --format json; then
  echo "tune first: $tvmr tune matmul.tir --work-dir $database" >&2
  exit 1
fi
