#!/usr/bin/env bash
# Kills parts of a running system and judges what became of its sessions; see
# docs/reliability.md. Arguments go to the program: --seed, --kills, --sweep,
# --json and so on. Exits 1 when something was lost, repeated, torn or left.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
# The build before is that of the commit before this one, or of BEFORE.
before=()
if commit=$(git rev-parse -q --verify "${BEFORE:-HEAD~1}^{commit}"); then
  if [ "$(cat bin/before/commit 2>/dev/null)" != "$commit" ]; then
    source=$(mktemp -d)
    git archive "$commit" | tar -x -C "$source"
    mkdir -p bin/before
    # Commits before 2026-11-23 have the program in worker/.
    program=./cmd/sojourn-worker
    [ -d "$source/cmd" ] || program=./worker
    go build -C "$source" -o "$ROOT/bin/before/sojourn-worker" "$program"
    CGO_ENABLED=0 go build -C "$source" -o "$ROOT/bin/before/sojourn-runner" ./runner/cmd/sojourn-runner
    rm -rf "$source"
    echo "$commit" >bin/before/commit
  fi
  before=(--before "$ROOT/bin/before/sojourn-worker")
else
  echo "chaos: no commit ${BEFORE:-HEAD~1} here: no worker of the build before is among the kills" >&2
fi
go build -o bin/sojourn-chaos ./test/chaos/cmd/sojourn-chaos
exec sojourn-chaos --root "$ROOT" --evidence "$ROOT/bin/chaos-evidence" "${before[@]}" "$@"
