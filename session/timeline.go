package session

import (
	"fmt"
	"slices"

	"github.com/sojourn-run/sojourn/event"
)

// Role is the author of a block.
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
	// RoleSystem is the agent's program or Sojourn.
	RoleSystem Role = "system"
)

var roles = []Role{RoleUser, RoleAssistant, RoleTool, RoleSystem}

// RoleOf returns a block's author: an agent's text, thoughts, tool calls and
// subagents are the assistant's, results are tools'.
func RoleOf(b event.Block) Role {
	switch b.Type {
	case event.BlockUserMessage:
		return RoleUser
	case event.BlockAssistantText, event.BlockThinking, event.BlockToolUse, event.BlockSubagent:
		return RoleAssistant
	case event.BlockToolResult:
		return RoleTool
	}
	return RoleSystem
}

// Timeline selects blocks of a conversation, for a caller that passes them on, such as to a
// model: the session keeps all. The zero value selects every block. The rules apply in the
// order of the fields.
type Timeline struct {
	// Roles selects blocks by author. Default: all.
	Roles []Role
	// Map returns a changed block, or false to leave it out. It must not change what
	// the block points to. Default: no change.
	Map func(event.Block) (event.Block, bool)
	// MaxTokens leaves out the oldest blocks beyond it, by EstimateTokens. Default:
	// no limit.
	MaxTokens int
	// Limit leaves out all but the newest blocks. Default: no limit.
	Limit int
}

// Validate returns an error for the first invalid field.
func (t Timeline) Validate() error {
	for _, r := range t.Roles {
		if !slices.Contains(roles, r) {
			return Invalid("roles", fmt.Sprintf("%q is unknown", r), "user, assistant, tool or system")
		}
	}
	switch {
	case t.MaxTokens < 0:
		return Invalid("maxTokens", "is negative", "0 (no limit) or more")
	case t.Limit < 0:
		return Invalid("limit", "is negative", "0 (no limit) or more")
	}
	return nil
}

// Of returns the selected blocks, in order. The argument is not changed.
func (t Timeline) Of(blocks []event.Block) []event.Block {
	chosen := []event.Block{}
	tokens := 0
	for _, b := range slices.Backward(blocks) {
		if t.Limit > 0 && len(chosen) == t.Limit {
			break
		}
		if len(t.Roles) > 0 && !slices.Contains(t.Roles, RoleOf(b)) {
			continue
		}
		if t.Map != nil {
			var wanted bool
			if b, wanted = t.Map(b); !wanted {
				continue
			}
		}
		if tokens += EstimateTokens(b); t.MaxTokens > 0 && tokens > t.MaxTokens {
			break
		}
		chosen = append(chosen, b)
	}
	slices.Reverse(chosen)
	return chosen
}

// bytesPerToken is the rule of thumb for English text and code.
const bytesPerToken = 4

// EstimateTokens returns about how many tokens a block's text, input and output
// take: one for four bytes, rounded up. Models count differently, and images are
// not counted.
func EstimateTokens(b event.Block) int {
	n := len(b.Input) + len(b.Output)
	if b.Content != nil {
		n += len(*b.Content)
	}
	for _, p := range b.Parts {
		n += len(p.Text)
	}
	return (n + bytesPerToken - 1) / bytesPerToken
}
