#!/usr/bin/env bash
# The main job in one go: two sessions with a real agent on the embedded stack.
# Every step is a command that you can type yourself; see README.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
AGENT=${AGENT:-claude}

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
  echo "The agent is the real ${AGENT} program; the model behind it is SCRIPTED: it does what the"
  echo "prompts say. With a real model: ANTHROPIC_API_KEY=… make demo MODEL=real"
fi

say "3. A worker: the host of the sandboxes"
start_worker "$DIR"
sojourn doctor || true

if [ "${MODEL:-scripted}" = scripted ]; then
  A1='SAY Hello, I am at work.'
  A2='TOOL write: notes.txt :: durable sessions'
  A3='THINK what a good name would be'
  A4='SUBAGENT TOOL bash: ls ANDTHEN SAY I looked around in here'
  B1='SAY The second session has a sandbox of its own.'
  B2='TOOL bash: pwd && ls -a'
else
  A1='Say hello in one short sentence.'
  A2='Write the words "durable sessions" into a file notes.txt.'
  A3='Think hard about a good name for a tool that keeps agent sessions, and answer with one.'
  A4='Use a subagent to list the files here, and say in one sentence what it found.'
  B1='Say in one sentence that you have a sandbox of your own.'
  B2='Run pwd and ls -a.'
fi

say "4. Two sessions side by side"
A=$(sojourn new --agent "$AGENT" --title "Demo: four turns")
B=$(sojourn new --agent "$AGENT" --title "Demo: beside it")
echo "sojourn new --agent $AGENT        → $A"
echo "sojourn new --agent $AGENT        → $B"
(sojourn tail "$A" --follow | sed -u $'s/^/\033[36m[A]\033[0m /') &
TAIL_A=$!
(sojourn tail "$B" --follow | sed -u $'s/^/\033[33m[B]\033[0m /') &
TAIL_B=$!
(
  sojourn send "$B" "$B1" --no-wait >/dev/null
  sojourn send "$B" "$B2" >/dev/null
) &
SEND_B=$!
for text in "$A1" "$A2" "$A3" "$A4"; do
  sojourn send "$A" "$text" >/dev/null
done
wait "$SEND_B"

say "5. What is there now"
sojourn ls
sojourn close "$A"
sojourn close "$B"
wait "$TAIL_A" "$TAIL_B"

say "6. The first session again, from S3: no sandbox is left"
sojourn show "$A" --from archive

say "7. What lies in S3"
(cd "$DIR/devstack" && find . -path '*sessions*' -type f ! -path '*/.sgwtmp/*' -printf '%10s  %P\n' | grep -v '\.sgw' | sort -k2 | sed "s|$A|<A>|; s|$B|<B>|")

say "Done. While it ran, operators saw the sessions at $SOJOURN_UI_URL"
