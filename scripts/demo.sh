#!/usr/bin/env bash
# The main job in one go: sessions with a real agent on the embedded stack, or
# with AGENT=all one session of each agent at the same time. In the middle of an
# answer the worker is killed, with LOSS=host its whole host. Every step is a
# command that you can type yourself; see README.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
AGENT=${AGENT:-claude}
LOSS=${LOSS:-worker}
ALL=(claude opencode gemini codex)

demonstrate demo

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
  LONG='SLOW 4'
  RECALL='RECALL'
else
  A1='Say hello in one short sentence.'
  A2='Write the words "durable sessions" into a file notes.txt.'
  A3='Think hard about a good name for a tool that keeps agent sessions, and answer with one.'
  A4='Use a subagent to list the files here, and say in one sentence what it found.'
  B1='Say in one sentence that you have a sandbox of your own.'
  B2='Run pwd and ls -a.'
  LONG='Tell a story of two hundred words about a program that never stops.'
  RECALL='What was the first thing that I asked you for in this conversation?'
fi

say "3. A worker: the host of the sandboxes"
start_worker "$DIR"
sojourn doctor || true

# Sessions in the order in which they were made: label, id, and what shows them
# live; NAMES puts labels in the place of ids.
LABELS=() IDS=() TAILS=() NAMES=()
COLOURS=(36 33 35 32)

# new_session LABEL AGENT TITLE
new_session() {
  local id colour=${COLOURS[${#IDS[@]}]}
  id=$(sojourn new --agent "$2" --title "$3")
  echo "sojourn new --agent $2 → $1: $id"
  sojourn tail "$id" --follow > >(sed -u "s/^/\x1b[${colour}m[$1]\x1b[0m /") &
  STARTED+=("$!") TAILS+=("$!") LABELS+=("$1") IDS+=("$id") NAMES+=(-e "s|$id|<$1>|")
}

# turns ID TEXT… sends one message after the other, each when the one before is
# answered.
turns() {
  local id=$1 text
  shift
  for text in "$@"; do sojourn send "$id" "$text" >/dev/null; done
}

# each FUNCTION calls it with the index of every session, all at once, and
# waits.
each() {
  local i pid under_way=()
  for i in "${!IDS[@]}"; do
    "$1" "$i" &
    under_way+=("$!")
  done
  for pid in "${under_way[@]}"; do wait "$pid"; done
}

if [ "$AGENT" = all ]; then
  say "4. One session of each agent, at the same time"
  for agent in "${ALL[@]}"; do new_session "$agent" "$agent" "Demo: $agent"; done
  first_turns() { turns "${IDS[$1]}" "$A1" "$A2" "$A4"; }
else
  say "4. Two sessions side by side"
  new_session A "$AGENT" "Demo: four turns"
  new_session B "$AGENT" "Demo: beside it"
  first_turns() { if [ "$1" = 0 ]; then turns "${IDS[0]}" "$A1" "$A2" "$A3" "$A4"; else turns "${IDS[1]}" "$B1" "$B2"; fi; }
fi
each first_turns

# last_seq ID prints the number of the session's last event.
last_seq() { sojourn tail "$1" --json | sed -n 's/.*"seq":\([0-9]*\).*/\1/p' | tail -n 1; }

# whole ID prints how many events the session has, and fails when their numbers
# have a gap or one comes twice.
whole() {
  sojourn tail "$1" --json | sed -n 's/.*"seq":\([0-9]*\).*/\1/p' | awk '
    $1 != NR { printf "event %d where %d was due\n", $1, NR; bad = 1; exit }
    END { if (!bad) printf "events 1 to %d, each once and in order\n", NR; exit bad }'
}

# long_turn INDEX sends the turn that is under way when the worker is killed.
long_turn() { sojourn send "${IDS[$1]}" "$LONG" >/dev/null; }

# first_word ID SEQ returns when the agent has said something after event SEQ.
first_word() { grep -qm1 '"type":"block:delta"' < <(sojourn tail "$1" --follow --json --after "$2"); }

# lose_host ends all processes of the first host and removes its folder.
lose_host() {
  local environ
  for environ in $(grep -lzs -- "$DIR/host/" /proc/[0-9]*/environ); do
    kill -9 "$(basename "$(dirname "$environ")")" 2>/dev/null || true
  done
  until rm -rf "$DIR/host" 2>/dev/null; do sleep 0.1; done
}

told() { printf '\x1b[1;31m  ⚡ %s\x1b[0m\n' "$*"; }

say "5. In the middle of an answer the worker is killed with -9"
SEEN=()
for i in "${!IDS[@]}"; do SEEN[i]=$(last_seq "${IDS[i]}"); done
each long_turn &
ANSWERS=$!
for i in "${!IDS[@]}"; do first_word "${IDS[i]}" "${SEEN[i]}"; done
kill -9 "$WORKER"
wait "$WORKER" 2>/dev/null || true
if [ "$LOSS" = host ]; then
  lose_host
  told "worker $WORKER is dead, and so is its host: runners, agents, and its folder with all sandboxes"
  start_worker "$DIR" other-host
  told "worker $WORKER on another host; it may go on when the lost agents' lease of 40 s is over, for nobody can know that they are dead"
else
  told "worker $WORKER is dead; the agents work on, what they say is kept by their runners"
  start_worker "$DIR"
  told "worker $WORKER takes over: it attaches to the same agents"
fi
wait "$ANSWERS"
for i in "${!IDS[@]}"; do
  echo "${LABELS[i]}: $(whole "${IDS[i]}")"
done

say "6. What is there now"
sojourn ls
close_session() { sojourn close "${IDS[$1]}"; }
each close_session
wait "${TAILS[@]}"

# Of two sessions of one agent the first is shown again, and opened.
[ "$AGENT" = all ] || IDS=("${IDS[0]}")
for i in "${!IDS[@]}"; do
  say "7. Session ${LABELS[i]} again, from S3: no sandbox is left"
  sojourn show "${IDS[i]}" --from archive
done

say "8. Opened again, in a new sandbox made of what lies in S3: is the first message remembered?"
open_again() {
  sojourn open "${IDS[$1]}" >/dev/null
  echo "[${LABELS[$1]}] $RECALL → $(sojourn send "${IDS[$1]}" "$RECALL")"
  close_session "$1"
}
each open_again

say "9. What lies in S3"
(cd "$DIR/devstack" && find . -path '*sessions*' -type f ! -path '*/.sgwtmp/*' -printf '%10s  %P\n' | grep -v '\.sgw' | sort -k2 | sed "${NAMES[@]}")

say "Done. While it ran, operators saw the sessions at $SOJOURN_UI_URL"
