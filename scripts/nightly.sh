#!/usr/bin/env bash
# Long runs: every fuzz target for FUZZTIME (default 60) seconds, then the tests three
# times over in random order.
set -euo pipefail
cd "$(dirname "$0")/.."
SECONDS_EACH=${FUZZTIME:-60} scripts/fuzz.sh

echo "nightly: every package three times, in random order"
export SOJOURN_DEVSTACK_BIN=$PWD/bin/sojourn-devstack PATH=$PWD/.agents/bin:$PATH
mapfile -t units < <(go list ./... | grep -v '/internal/e2e$')
export SOJOURN_LONG=1
echo "nightly: random conversations with the real agent"
SOJOURN_RANDOM=${RANDOM_CONVERSATIONS:-40} SOJOURN_RANDOM_GENTLE=1 go test -run TestRandomParity -timeout 60m -v ./adapters/claude
go test -race -count=3 -shuffle=on -timeout 60m "${units[@]}"
go test -race -count=3 -shuffle=on -timeout 90m ./internal/e2e
scripts/faults.sh
