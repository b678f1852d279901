#!/usr/bin/env bash
# Long runs: every fuzz target for FUZZTIME (default 60) seconds, the tests three
# times over in random order with -race everywhere, the tests of faults, and chaos:
# KILLS (500) under 40 sessions from the day's seed (or SEED), once more with
# everything in its plan, and a kill at every event of a turn.
set -euo pipefail
cd "$(dirname "$0")/.."
SECONDS_EACH=${FUZZTIME:-60} scripts/fuzz.sh

. scripts/testenv.sh
race_worker
echo "nightly: every package three times, in random order"
mapfile -t units < <(go list ./... | grep -v '/test/e2e$')
export SOJOURN_LONG=1
echo "nightly: random conversations with the real agent"
SOJOURN_RANDOM=${RANDOM_CONVERSATIONS:-40} SOJOURN_RANDOM_GENTLE=1 go test -run TestRandomParity -timeout 60m -v ./adapters/claude
echo "nightly: sessions with requests at random moments"
SOJOURN_RANDOM_LIVES=${RANDOM_LIVES:-10} go test -race -run TestRandomLife -timeout 30m -v ./test/e2e
go test -race -count=3 -shuffle=on -timeout 60m "${units[@]}"
go test -race -count=3 -shuffle=on -timeout 90m ./test/e2e -skip "$FAULTS"
echo "nightly: mutants"
go run ./test/mutants/cmd/mutants
echo "nightly: faults"
scripts/faults.sh
echo "nightly: chaos"
scripts/chaos.sh --seed "${SEED:-$(date +%Y%m%d)}" --kills "${KILLS:-500}" --sessions 40
scripts/chaos.sh --seed "${SEED:-$(date +%Y%m%d)}" --kills "${KILLS:-500}" --sessions 40 --full
scripts/chaos.sh --sweep --agents claude,opencode,gemini,codex --part worker,agent
