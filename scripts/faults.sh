#!/usr/bin/env bash
# The tests that kill, stop, cut off and fill up, with -race. They wait for leases
# and for hosts to be given up, so they take their time; `make nightly` runs them.
# Arguments go to go test, such as -run TestKillWorker -v.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/testenv.sh
go test -race -timeout 60m ./internal/e2e -run "$FAULTS" "$@"
