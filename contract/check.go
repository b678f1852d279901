package contract

import "github.com/sojourn-run/sojourn/session"

// CheckInput is a command that is to run in a session's sandbox.
type CheckInput struct {
	Sandbox session.Sandbox `json:"sandbox"`
	// Command is for sh, in the workspace.
	Command string `json:"command"`
	// TimeoutMS bounds it, in milliseconds.
	TimeoutMS int64 `json:"timeoutMs"`
}

// CheckOutput is how the command ended.
type CheckOutput struct {
	// Code is its exit code: 0 is well, CheckTimedOut if it was ended after its time.
	Code int `json:"code"`
	// Output is the end of what it wrote, at most 1 KiB.
	Output string `json:"output,omitempty"`
}

// CheckTimedOut is the exit code of a command that did not end in time, as of timeout(1).
const CheckTimedOut = 124
