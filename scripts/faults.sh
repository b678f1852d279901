#!/usr/bin/env bash
# The tests that kill, stop, cut off and fill up, with -race. They wait for leases
# and for hosts to be given up, so they take their time; make test-all has them.
# Arguments go to go test, such as -run TestKillWorker.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/testenv.sh
race_worker
go build -o bin/testreport ./test/testreport
go test -json -race -parallel 6 -timeout 60m ./test/e2e -run "$FAULTS" "$@" | bin/testreport
