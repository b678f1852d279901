# Shared by the scripts of this folder: starting the embedded stack and ending
# what was started, by process id.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PATH="$ROOT/bin:$ROOT/.agents/bin:$PATH"
STARTED=()

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

# start NAME LOGFILE COMMAND… runs it in the background and remembers its id.
start() {
  local name=$1 log=$2
  shift 2
  "$@" >"$log" 2>&1 &
  STARTED+=("$!")
  LAST_STARTED=$!
  LAST_NAME=$name
  LAST_LOG=$log
}

# await SECONDS COMMAND… waits until the command succeeds, as long as what was
# started last lives.
await() {
  local left=$(($1 * 10))
  shift
  until "$@" 2>/dev/null; do
    if ! kill -0 "$LAST_STARTED" 2>/dev/null || ((left-- <= 0)); then
      echo "$LAST_NAME is not ready; it said:" >&2
      cat "$LAST_LOG" >&2
      return 1
    fi
    sleep 0.1
  done
}

# stop_all ends what was started, the last first, and waits for it.
stop_all() {
  local i pid
  for ((i = ${#STARTED[@]} - 1; i >= 0; i--)); do
    pid=${STARTED[i]}
    kill "$pid" 2>/dev/null || continue
    wait "$pid" 2>/dev/null || true
  done
  STARTED=()
}

# demonstrate NAME makes the folder DIR of a demonstration. At the end it is removed, unless
# something failed, and what was started ends.
demonstrate() {
  DIR=$(mktemp -d "${TMPDIR:-/tmp}/sojourn-$1-XXXXXX")
  trap end_demonstration EXIT
  trap 'exit 130' INT TERM
}

end_demonstration() {
  local code=$?
  trap - EXIT INT TERM
  stop_all
  if [ $code -eq 0 ]; then rm -rf "$DIR"; else echo "demo failed ($code); logs are in $DIR" >&2; fi
  exit $code
}

# start_stack DIR brings up Temporal, Web UI, NATS and S3 and reads their
# addresses into the environment.
start_stack() {
  local dir=$1
  mkdir -p "$dir"
  rm -f "$dir/env"
  start devstack "$dir/devstack.log" sojourn-devstack --data-dir "$dir/devstack" --env-file "$dir/env"
  await 60 test -s "$dir/env"
  grep -i 'taken' "$dir/devstack.log" || true
  set -a
  # shellcheck disable=SC1091
  . "$dir/env"
  set +a
}

# What agents are told of their models, by the names that they themselves use.
MODEL_ENV=ANTHROPIC_API_KEY,ANTHROPIC_BASE_URL,ANTHROPIC_AUTH_TOKEN,OPENAI_API_KEY,OPENAI_BASE_URL,GEMINI_API_KEY,GOOGLE_GEMINI_BASE_URL,OPENCODE_CONFIG_CONTENT

# start_model DIR stands in for the model, unless MODEL=real.
start_model() {
  local dir=$1
  if [ "${MODEL:-scripted}" = real ]; then
    echo "The model is real: the agent finds it by your own settings (such as ANTHROPIC_API_KEY)."
    export SOJOURN_PASS_ENV=${SOJOURN_PASS_ENV:-$MODEL_ENV}
    return
  fi
  rm -f "$dir/model.env"
  start modelsim "$dir/modelsim.log" sojourn-modelsim --addr 127.0.0.1:0 --env-file "$dir/model.env"
  await 20 test -s "$dir/model.env"
  set -a
  # shellcheck disable=SC1091
  . "$dir/model.env"
  set +a
  export SOJOURN_PASS_ENV=$MODEL_ENV
}

# start_worker DIR [HOST] starts a worker on a data folder of its own and
# leaves its process id in WORKER.
start_worker() {
  local dir=$1 host=${2:-host} log
  WORKERS=$((${WORKERS:-0} + 1))
  log=$dir/worker-$WORKERS.log
  SOJOURN_DATA_DIR=$dir/$host start worker "$log" sojourn-worker --env-file "$dir/env" --stop-agents
  WORKER=$LAST_STARTED
  await 30 grep -q 'is ready' "$log"
}
