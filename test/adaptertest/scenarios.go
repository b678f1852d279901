package adaptertest

import (
	"slices"

	"github.com/sojourn-run/sojourn/adapters"
)

// ability is a capability that a scenario needs.
type ability struct {
	name string
	has  func(Agent, adapters.Capabilities) bool
}

// The capabilities that scenarios need. What no capability covers is missing only if
// Agent.Missing lists it.
var (
	thinks     = ability{"thinking", func(_ Agent, c adapters.Capabilities) bool { return c.Thinking }}
	delegates  = ability{"subagents", func(_ Agent, c adapters.Capabilities) bool { return c.Subagents }}
	interrupts = ability{"interrupt", func(_ Agent, c adapters.Capabilities) bool { return c.Interrupt }}
	approves   = ability{"approve", func(_ Agent, c adapters.Capabilities) bool { return c.Approve }}
	asks       = ability{"questions", func(_ Agent, c adapters.Capabilities) bool { return c.Questions }}
	steers     = ability{"steer", func(_ Agent, c adapters.Capabilities) bool { return c.Steer }}
	setsModel  = ability{"set model", func(_ Agent, c adapters.Capabilities) bool { return c.SetModel }}
	sees       = ability{"images", func(_ Agent, c adapters.Capabilities) bool { return c.Images }}
	compacts   = ability{"compaction by a message", func(a Agent, _ adapters.Capabilities) bool { return a.Compact != "" }}
)

// The sessions in which several scenarios are played.
const (
	inTurns    = "turns"    // one process
	inAsked    = "asked"    // with a person who is asked
	inRestarts = "restarts" // of the process, here and on other hosts
)

// scenarios returns all scenarios, long ones first, those of a session in their order.
func scenarios() []scenario {
	return slices.Concat(ofTheirOwn(), ofTurns(), ofAsked(), ofRestarts())
}

func ofTheirOwn() []scenario {
	return []scenario{
		{name: "big-line", options: Options{Profile: &withKit}, play: (*Rig).playBigLine},
		{name: "slow-reader", play: (*Rig).playSlowReader},
		{name: "api-error", play: (*Rig).playAPIErrors},
		{name: "api-error-first", play: (*Rig).playAPIErrorFirst},
		{name: "stream-cut", play: (*Rig).playStreamCut},

		{name: "resume-young", play: (*Rig).playYoung},
		{name: "resume-unspoken", play: (*Rig).playUnspoken},
		{name: "tool-out-of-order", play: (*Rig).playToolOutOfOrder, before: (*Rig).delayFirst, options: Options{Env: []string{"BASH_ENV=./late.sh"}}},
		{name: "permission-policy", needs: approves, options: Options{Permission: adapters.PermissionDeny}, play: (*Rig).playPolicy},
		{name: "permission-tightened", needs: approves, play: (*Rig).playPermissionTightened, before: (*Rig).writeHostile},
		{name: "unknown-events", options: Options{Unknown: true}, play: (*Rig).playUnknown},
		{name: "compact", needs: compacts, play: (*Rig).playCompact},
		{name: "profile", options: Options{Profile: &demonstration}, play: (*Rig).playProfile},
		{name: "system-prompt", options: Options{SystemPrompt: "MARK-SYSTEM-PROMPT"}, play: (*Rig).playSystemPrompt},
	}
}

func ofTurns() []scenario {
	return inOne(inTurns, Options{}, []scenario{
		{name: "new", play: (*Rig).playNew},
		{name: "warm", play: (*Rig).playWarm},
		{name: "tool-success", play: (*Rig).playToolSuccess},
		{name: "tool-failure", play: (*Rig).playToolFailure},
		{name: "tool-parallel", play: (*Rig).playToolParallel, fresh: true},
		{name: "tool-write-read", play: (*Rig).playToolWriteRead},
		{name: "thinking", needs: thinks, play: (*Rig).playThinking},
		{name: "subagent", needs: delegates, play: (*Rig).playSubagent, fresh: true},
		{name: "subagent-nested", needs: delegates, play: (*Rig).playSubagentNested},
		{name: "subagent-background", needs: delegates, play: (*Rig).playSubagentBackground},
		{name: "subagent-parallel-tools", needs: delegates, play: (*Rig).playSubagentTools},
		{name: "interrupt-stream", needs: interrupts, play: (*Rig).playInterruptStream, fresh: true},
		{name: "interrupt-tool", needs: interrupts, play: (*Rig).playInterruptTool},
		{name: "interrupt-subagent", needs: delegates, play: (*Rig).playInterruptSubagent},
		{name: "steer", needs: steers, play: (*Rig).playSteer},
		{name: "image", needs: sees, play: (*Rig).playImage},
		{name: "set-model", needs: setsModel, play: (*Rig).playSetModel},
	})
}

func ofAsked() []scenario {
	return inOne(inAsked, Options{Permission: adapters.PermissionAsk}, []scenario{
		{name: "permission-allow", needs: approves, play: (*Rig).playAllow},
		{name: "permission-deny", needs: approves, play: (*Rig).playDeny},
		{name: "permission-deny-heard", needs: approves, play: (*Rig).playDenyHeard},
		{name: "permission-subagent", needs: approves, play: (*Rig).playPermissionSubagent},
		{name: "question", needs: asks, play: (*Rig).playQuestion},
		{name: "permission-change", needs: approves, play: (*Rig).playPermissionChange},
		{name: "permission-never", needs: approves, play: (*Rig).playNeverAnswered},
	})
}

func ofRestarts() []scenario {
	return inOne(inRestarts, Options{}, []scenario{
		{name: "resume-second-process", play: (*Rig).playSecondProcess},
		{name: "kill-stream", play: (*Rig).playKillStream, fresh: true},
		{name: "kill-tool", play: (*Rig).playKillTool},
		{name: "kill-subagent", needs: delegates, play: (*Rig).playKillSubagent},
		{name: "kill-writing", play: (*Rig).playKillWriting},
		{name: "kill-host", play: (*Rig).playKillHost},
		{name: "resume-other-host", play: (*Rig).playOtherHost, fresh: true},
	})
}

// inOne makes scenarios those of one session.
func inOne(session string, options Options, all []scenario) []scenario {
	for i := range all {
		all[i].session, all[i].options = session, options
	}
	return all
}
