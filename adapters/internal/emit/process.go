package emit

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/event"
)

// Fatal reports whether a record about the process means its end. Recordings have
// the number of a sent signal: signals are those, beside 9, that end the agent at
// once.
func Fatal(what string, signals ...string) bool {
	return what == "9" || what == "TIMEOUT-KILL" || slices.Contains(signals, what) ||
		strings.HasPrefix(what, "exit") || strings.HasPrefix(what, "signal")
}

// LogProcess adds a log event for a record about the process.
func (e *Emitter) LogProcess(what string) {
	e.Emit(event.Main, event.Log{Level: "info", Message: "process: " + what})
}

// Died adds the end of the process: an error in the middle of a turn, else a log
// event.
func (e *Emitter) Died(how string, midTurn bool) {
	if !midTurn {
		e.LogProcess(how)
		return
	}
	e.Emit(event.Main, event.Error{ErrorInfo: event.ErrorInfo{
		Message: e.Agent + " ended in the middle of a turn: " + how, Code: "agent_died",
	}})
}

// Lost returns the metadata of a block that is in no transcript of the agent.
func Lost() map[string]json.RawMessage {
	return map[string]json.RawMessage{"lost": json.RawMessage("true")}
}

// UnknownEffect returns the metadata of a result that is the adapter's own, of a call
// that had begun and got none.
func UnknownEffect() map[string]json.RawMessage {
	return map[string]json.RawMessage{"effect": json.RawMessage(`"unknown"`)}
}

// Lose marks a block that is in no transcript of the agent.
func (e *Emitter) Lose(conversation, id string, typ event.BlockType) {
	b := event.Block{ID: id, Type: typ, Status: event.StatusError, Metadata: Lost()}
	if typ == event.BlockToolUse {
		b.Execution = event.ExecutionError
	}
	e.Upsert(conversation, b)
}
