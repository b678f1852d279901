package permission

import (
	"encoding/json"
	"fmt"

	"github.com/sojourn-run/sojourn/event"
)

// OnLoss is what a turn does after the loss of its runner or host in the middle of a call,
// whose effect is therefore unknown.
type OnLoss string

const (
	// LossContinue continues; the agent is informed of the calls with an unknown effect.
	LossContinue OnLoss = "continue"
	// LossAsk asks a person first. A denial ends the turn.
	LossAsk OnLoss = "ask"
	// LossFail ends the turn.
	LossFail OnLoss = "fail"
)

// answers maps the verdicts to a permission rule's answers, which decide how its pattern is
// matched: one that continues must match all that the call does, one that asks or fails any
// of it.
var answers = map[OnLoss]Answer{LossContinue: Allow, LossAsk: Ask, LossFail: Deny}

// EffectRule is the verdict for the calls of some tools. Tool and Match are as in [Rule].
type EffectRule struct {
	Tool  string `json:"tool"`
	Match string `json:"match,omitempty"`
	// Then is continue, ask or fail. Required.
	Then OnLoss `json:"then"`
}

// EffectRules are tried in order: the first that matches a call decides for it.
type EffectRules []EffectRule

// Validate returns a *FieldError for the first invalid field.
func (rs EffectRules) Validate() error {
	for i, r := range rs {
		if r.Tool == "" {
			return &FieldError{fmt.Sprintf("unknownEffects[%d].tool", i), "is empty", "the name of a tool, or *"}
		}
		if answers[r.Then] == "" {
			return &FieldError{fmt.Sprintf("unknownEffects[%d].then", i), fmt.Sprintf("is %q", r.Then), "continue, ask or fail"}
		}
	}
	return nil
}

// Then returns the verdict for a call. Default: LossContinue.
func (rs EffectRules) Then(toolName string, input json.RawMessage) OnLoss {
	call := event.PermissionRequested{ToolName: toolName, Input: input}
	for _, r := range rs {
		if answer, _ := (Rules{{Tool: r.Tool, Match: r.Match, Answer: answers[r.Then]}}).Answer(call, ""); answer != "" {
			return r.Then
		}
	}
	return LossContinue
}

// Over returns the stricter of two verdicts; "" is none.
func (l OnLoss) Over(other OnLoss) OnLoss {
	strictness := map[OnLoss]int{LossContinue: 1, LossAsk: 2, LossFail: 3}
	if strictness[other] > strictness[l] {
		return other
	}
	return l
}
