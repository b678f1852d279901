// Package turns writes native transcripts turn by turn, of any length, for tests and
// benchmarks of a turn's cost. Each turn is a prompt and an answer of 2 500 bytes.
package turns

import (
	"fmt"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/claude"
	"github.com/sojourn-run/sojourn/adapters/codex"
	"github.com/sojourn-run/sojourn/adapters/gemini"
)

// File is an agent that stores a session in a growing file.
type File struct {
	Adapter  adapters.Adapter
	NativeID string
	// Path is the file's path in the home.
	Path string
	// Head is the start of the file.
	Head string
	// Turn returns what the n-th turn appends, and Answer the id of the block with its
	// answer.
	Turn   func(n int) string
	Answer func(n int) string
}

// text is the text of prompts and answers.
var text = strings.Repeat("word ", 500)

// Files returns the agents that store sessions in files.
func Files() []File { return []File{Claude(), Codex(), Gemini()} }

// Claude returns a session of Claude Code.
func Claude() File {
	return File{
		Adapter: claude.New(), NativeID: "native", Path: ".claude/projects/p/native.jsonl",
		Turn: func(n int) string {
			return fmt.Sprintf(`{"type":"user","uuid":"u%06[1]d","message":{"role":"user","content":"%[2]s"},"promptSource":"sdk"}
{"type":"assistant","uuid":"a%06[1]d","message":{"id":"m%06[1]d","model":"x","content":[{"type":"text","text":"%[2]s"}]}}
`, n, text)
		},
		Answer: func(n int) string { return fmt.Sprintf("m%06d:0", n) },
	}
}

// Codex returns a session of Codex.
func Codex() File {
	const id = "11111111-2222-5333-8444-555555555555"
	const line = `{"timestamp":"2026-11-21T05:09:53.331Z","type":"event_msg","payload":{"type":"%s","turn_id":"t%06d"%s}}` + "\n"
	item := func(n int, kind, id, part string) string {
		return fmt.Sprintf(line, "item_completed", n, fmt.Sprintf(
			`,"item":{"type":%q,"id":"%s%06d","content":[{"type":%q,"text":%q}]},"started_at_ms":1795237793342,"completed_at_ms":1795237793342`,
			kind, id, n, part, text))
	}
	return File{
		Adapter: codex.New(), NativeID: id, Path: ".codex/sessions/2026/11/21/rollout-2026-11-21T05-00-00-" + id + ".jsonl",
		Head: `{"timestamp":"2026-11-21T05:00:00.000Z","type":"session_meta","payload":{"id":"` + id + `"}}` + "\n",
		Turn: func(n int) string {
			return fmt.Sprintf(line, "task_started", n, "") + item(n, "UserMessage", "u", "text") +
				item(n, "AgentMessage", "a", "Text") + fmt.Sprintf(line, "task_complete", n, "")
		},
		Answer: func(n int) string { return fmt.Sprintf("a%06d", n) },
	}
}

// Gemini returns a session of Gemini CLI.
func Gemini() File {
	const head = `{"sessionId":"s","projectHash":"x","startTime":"2026-11-21T00:30:19.935Z","kind":"main"}` + "\n"
	return File{
		Adapter: gemini.New(), NativeID: "s", Path: ".gemini/tmp/p/chats/session-2000-01-01T00-00-s.jsonl",
		Head: head + head, // the protocol begins two recordings
		Turn: func(n int) string {
			return fmt.Sprintf(`{"id":"u%06[1]d","timestamp":"2026-11-21T00:30:19.946Z","type":"user","content":[{"text":"%[2]s"}]}
{"$set":{"lastUpdated":"2026-11-21T00:30:19.946Z"}}
{"id":"a%06[1]d","timestamp":"2026-11-21T00:30:20.074Z","type":"gemini","content":"%[2]s","thoughts":[]}
{"$set":{"lastUpdated":"2026-11-21T00:30:20.074Z"}}
`, n, text)
		},
		Answer: func(n int) string { return fmt.Sprintf("s:%d:text:0", n) },
	}
}
