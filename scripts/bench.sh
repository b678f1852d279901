#!/usr/bin/env bash
# The figures of docs/benchmarks.md, each beside its floor. Arguments go to the
# program: --json, --only part,part, --late turn,turn.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
go build -o bin/sojourn-bench ./test/bench
exec sojourn-bench --root "$ROOT" "$@"
