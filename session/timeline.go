package session

import (
	"fmt"
	"slices"

	"github.com/sojourn-run/sojourn/event"
)

// Role is who speaks in a block.
type Role string

const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
	// RoleSystem is of what the agent's program or Sojourn says itself.
	RoleSystem Role = "system"
)

var roles = []Role{RoleUser, RoleAssistant, RoleTool, RoleSystem}

// RoleOf returns who speaks in a block: an agent's text, thoughts, tool calls and
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

// Timeline chooses blocks of a conversation, for a caller that gives them to
// something else: the session keeps all. The zero value chooses every block. The
// rules apply in the order of the fields.
type Timeline struct {
	// Roles are those whose blocks are wanted. Default: all.
	Roles []Role
	// Map returns a block as it is wanted, or false to leave it out. It must not
	// change what the block points to. Default: as it is.
	Map func(event.Block) (event.Block, bool)
	// MaxTokens leaves out the oldest blocks that are too many, by EstimateTokens.
	// Default: no limit.
	MaxTokens int
	// Limit leaves out all but the newest blocks. Default: no limit.
	Limit int
}

// Validate names the first field that can't be.
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

// Of returns the blocks that are chosen, in their order. The argument is not changed.
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

// EstimateTokens is about how many tokens a block's text, input and output take: one
// for four bytes, rounded up. Models count differently, and images are not counted.
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
