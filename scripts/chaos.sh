#!/usr/bin/env bash
# Kills parts of a running system and judges what became of its sessions; see
# docs/reliability.md. Arguments go to the program: --seed, --kills, --sweep,
# --json and so on. Exits 1 when something was lost, repeated, torn or left.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
go build -o bin/sojourn-chaos ./internal/chaos/cmd/sojourn-chaos
exec sojourn-chaos --root "$ROOT" "$@"
