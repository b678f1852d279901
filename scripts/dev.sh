#!/usr/bin/env bash
# Stack and worker for development; they stay up until Ctrl-C, and what they
# keep in .dev stays for the next time.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

DIR=$ROOT/.dev
trap 'stop_all' EXIT
trap 'exit 0' INT TERM
start_stack "$DIR"
start_model "$DIR"
start_worker "$DIR"

say "Up. In another terminal:"
cat <<TXT
  export PATH=$ROOT/bin:\$PATH SOJOURN_ENV_FILE=$DIR/env
  sojourn doctor
  sojourn chat \$(sojourn new --agent claude)

Web UI: $SOJOURN_UI_URL
Logs:   $DIR/*.log
TXT
[ "${MODEL:-scripted}" = real ] || echo "The model is scripted; MODEL=real make dev uses yours."
wait
