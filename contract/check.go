package contract

import (
	"fmt"
	"strings"

	"github.com/sojourn-run/sojourn/session"
)

// FirstJobMessage is the id of the message with which a job asks its session.
const FirstJobMessage = "job"

const repairPrefix = "repair-"

// RepairMessage returns the id of the message with which a job asks for another answer, for the
// n-th time.
func RepairMessage(n int) string { return fmt.Sprintf("%s%d", repairPrefix, n) }

// OfJob reports whether a message has the id of a job's: a check may follow its turn.
func OfJob(messageID string) bool {
	return messageID == FirstJobMessage || strings.HasPrefix(messageID, repairPrefix)
}

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
