#!/usr/bin/env bash
# A tree of agents on the embedded stack: Claude Code has Gemini CLI and OpenCode
# spawned by its own tool calls, both work at the same time, the worker is killed
# meanwhile, and their answers arrive in Claude Code's turn.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

demonstrate tree

say "1. Servers, a model, a worker"
start_stack "$DIR"
echo "Web UI: $SOJOURN_UI_URL"
start_model "$DIR"
start_worker "$DIR"

if [ "${MODEL:-scripted}" = scripted ]; then
  echo "The agents are the real programs; the model behind them is SCRIPTED: it does what the prompts say."
  spawn() { echo "CALL mcp__sojourn__spawn_agent {\"agent\":\"$1\",\"prompt\":\"$2\",\"description\":\"$3\",\"wait_seconds\":0}"; }
  TASK="$(spawn gemini 'SLOW 5 ANDTHEN SAY Gemini would call it Sojourn.' 'find a name')"
  TASK+=" THEN $(spawn opencode 'TOOL bash: sleep 4; uname ANDTHEN SAY OpenCode has looked at the machine.' 'look at the machine')"
  # A busy machine may need more than the 45 seconds of one call; one for those that have ended returns at once.
  for _ in 1 2 3 4; do
    TASK+=' THEN CALL mcp__sojourn__wait_agent {"agent_ids":["{{1.agent_id}}","{{2.agent_id}}"]}'
  done
  TASK+=' THEN SAY Both have answered, and their answers are in my turn.'
else
  TASK='Use the tool spawn_agent twice: have the agent gemini find a name for a tool that keeps agent sessions, and the agent opencode run uname. Let both work at the same time (wait_seconds 0), wait for both with wait_agent, and sum up what they say.'
fi

say "2. Claude Code, who may spawn"
ID=$(sojourn new --agent claude --spawn --title "Demo: a tree")
echo "sojourn new --agent claude --spawn → $ID"
sojourn tail "$ID" --follow &
STARTED+=("$!")
TAIL=$!
sojourn send "$ID" "$TASK" >/dev/null &
ANSWER=$!

# both_at_work reports whether two child sessions have a host, where their agents are.
both_at_work() { [ "$(sojourn ls --all --json --query "SojournParent = '$ID' AND SojournHost IS NOT NULL" | grep -o '"sessionId"' | wc -l)" -ge 2 ]; }
await 180 both_at_work
sleep 2 # so that the agents have begun
kill -9 "$WORKER"
wait "$WORKER" 2>/dev/null || true
printf '\x1b[1;31m  ⚡ worker %s is dead; three agents work on, and a tool call of one of them waits\x1b[0m\n' "$WORKER"
start_worker "$DIR"
printf '\x1b[1;31m  ⚡ worker %s takes over\x1b[0m\n' "$WORKER"
wait "$ANSWER"

say "3. The tree, live"
sojourn show "$ID" --tree | tee "$DIR/tree"
sojourn close "$ID"
wait "$TAIL"

say "4. The tree, from S3: no sandbox is left"
sojourn show "$ID" --tree --from archive
if [ "${MODEL:-scripted}" = scripted ] && [ "$(awk '/^✓ .*wait_agent/ { last = "" } { last = last $0 "\n" } END { printf "%s", last }' "$DIR/tree" | grep -c '"status":"answered"')" != 2 ]; then
  echo "An agent had not answered when the last of Claude Code's calls stopped waiting for it: the machine is too busy." >&2
  exit 1
fi
say "Done."
