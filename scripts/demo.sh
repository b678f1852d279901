#!/usr/bin/env bash
# The main job in one go: sessions with a real agent on the embedded stack, or
# with AGENT=all one session of each agent at the same time. Every step is a
# command that you can type yourself; see README.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
AGENT=${AGENT:-claude}
ALL=(claude opencode gemini codex)

DIR=$(mktemp -d "${TMPDIR:-/tmp}/sojourn-demo-XXXXXX")
finish() {
  local code=$?
  trap - EXIT INT TERM
  stop_all
  if [ $code -eq 0 ]; then rm -rf "$DIR"; else echo "demo failed ($code); logs are in $DIR" >&2; fi
  exit $code
}
trap finish EXIT
trap 'exit 130' INT TERM

say "1. Temporal, its Web UI, NATS JetStream and an S3 gateway, in one program"
start_stack "$DIR"
echo "Web UI: $SOJOURN_UI_URL"

say "2. A model"
start_model "$DIR"
if [ "${MODEL:-scripted}" = scripted ]; then
  echo "The agents are the real programs; the model behind them is SCRIPTED: it does what the"
  echo "prompts say. With a real model: ANTHROPIC_API_KEY=… make demo MODEL=real"
  A1='SAY Hello, I am at work.'
  A2='TOOL write: notes.txt :: durable sessions'
  A3='THINK what a good name would be'
  A4='SUBAGENT TOOL bash: ls ANDTHEN SAY I looked around in here'
  B1='SAY The second session has a sandbox of its own.'
  B2='TOOL bash: pwd && ls -a'
  RECALL='RECALL'
else
  A1='Say hello in one short sentence.'
  A2='Write the words "durable sessions" into a file notes.txt.'
  A3='Think hard about a good name for a tool that keeps agent sessions, and answer with one.'
  A4='Use a subagent to list the files here, and say in one sentence what it found.'
  B1='Say in one sentence that you have a sandbox of your own.'
  B2='Run pwd and ls -a.'
  RECALL='What was the first thing that I asked you for in this conversation?'
fi

say "3. A worker: the host of the sandboxes"
start_worker "$DIR"
sojourn doctor || true

# Sessions in the order in which they were made: label and id, and what shows
# them live.
LABELS=() IDS=() TAILS=()
COLOURS=(36 33 35 32)

# new_session LABEL AGENT TITLE
new_session() {
  local id colour=${COLOURS[${#IDS[@]}]}
  id=$(sojourn new --agent "$2" --title "$3")
  echo "sojourn new --agent $2 → $1: $id"
  sojourn tail "$id" --follow > >(sed -u "s/^/\x1b[${colour}m[$1]\x1b[0m /") &
  STARTED+=("$!") TAILS+=("$!") LABELS+=("$1") IDS+=("$id")
}

# turns ID TEXT… sends one message after the other, each when the one before is
# answered.
turns() {
  local id=$1 text
  shift
  for text in "$@"; do sojourn send "$id" "$text" >/dev/null; done
}

# one_agent: two sessions side by side.
one_agent() {
  say "4. Two sessions side by side"
  new_session A "$AGENT" "Demo: four turns"
  new_session B "$AGENT" "Demo: beside it"
  turns "${IDS[1]}" "$B1" "$B2" &
  local beside=$!
  turns "${IDS[0]}" "$A1" "$A2" "$A3" "$A4"
  wait "$beside"
}

# all_agents: the same turns with each agent at the same time.
all_agents() {
  say "4. One session of each agent, at the same time"
  local agent pid i under_way=()
  for agent in "${ALL[@]}"; do new_session "$agent" "$agent" "Demo: $agent"; done
  for i in "${!IDS[@]}"; do
    turns "${IDS[i]}" "$A1" "$A2" "$A4" &
    under_way+=("$!")
  done
  for pid in "${under_way[@]}"; do wait "$pid"; done
}

if [ "$AGENT" = all ]; then all_agents; else one_agent; fi

say "5. What is there now"
sojourn ls
for id in "${IDS[@]}"; do sojourn close "$id"; done
wait "${TAILS[@]}"

for i in "${!IDS[@]}"; do
  [ "$AGENT" = all ] || [ "$i" = 0 ] || continue
  say "6. Session ${LABELS[i]} again, from S3: no sandbox is left"
  sojourn show "${IDS[i]}" --from archive
done

say "7. Opened again, in a new sandbox made of what lies in S3: is the first message remembered?"
for i in "${!IDS[@]}"; do
  [ "$AGENT" = all ] || [ "$i" = 0 ] || continue
  sojourn open "${IDS[i]}" >/dev/null
  echo "[${LABELS[i]}] $RECALL → $(sojourn send "${IDS[i]}" "$RECALL")"
  sojourn close "${IDS[i]}"
done

say "8. What lies in S3"
NAMES=()
for i in "${!IDS[@]}"; do NAMES+=(-e "s|${IDS[i]}|<${LABELS[i]}>|"); done
(cd "$DIR/devstack" && find . -path '*sessions*' -type f ! -path '*/.sgwtmp/*' -printf '%10s  %P\n' | grep -v '\.sgw' | sort -k2 | sed "${NAMES[@]}")

say "Done. While it ran, operators saw the sessions at $SOJOURN_UI_URL"
