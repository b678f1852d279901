package adaptertest

import (
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

// ask has sessions ask a person about their tools.
var ask = Options{Permission: adapters.PermissionAsk}

// scenarios returns all scenarios, long ones first.
func scenarios() []scenario {
	return []scenario{
		{name: "big-line", options: Options{Profile: &withKit}, play: (*Rig).playBigLine},
		{name: "slow-reader", play: (*Rig).playSlowReader},
		{name: "api-error", play: (*Rig).playAPIErrors},
		{name: "api-error-first", play: (*Rig).playAPIErrorFirst},
		{name: "stream-cut", play: (*Rig).playStreamCut},

		{name: "new", play: (*Rig).playNew},
		{name: "warm", play: (*Rig).playWarm},
		{name: "resume-second-process", play: (*Rig).playSecondProcess},
		{name: "resume-other-host", play: (*Rig).playOtherHost, fresh: true},
		{name: "resume-young", play: (*Rig).playYoung},
		{name: "resume-unspoken", play: (*Rig).playUnspoken},

		{name: "tool-success", play: (*Rig).playToolSuccess},
		{name: "tool-failure", play: (*Rig).playToolFailure},
		{name: "tool-parallel", play: (*Rig).playToolParallel, fresh: true},
		{name: "tool-out-of-order", play: (*Rig).playToolOutOfOrder, before: (*Rig).delayFirst, options: Options{Env: []string{"BASH_ENV=./late.sh"}}},
		{name: "tool-write-read", play: (*Rig).playToolWriteRead},
		{name: "thinking", needs: thinks, play: (*Rig).playThinking},
		{name: "subagent", needs: delegates, play: (*Rig).playSubagent, fresh: true},
		{name: "subagent-parallel-tools", needs: delegates, play: (*Rig).playSubagentTools},
		{name: "subagent-nested", needs: delegates, play: (*Rig).playSubagentNested},
		{name: "subagent-background", needs: delegates, play: (*Rig).playSubagentBackground},

		{name: "interrupt-stream", needs: interrupts, play: (*Rig).playInterruptStream, fresh: true},
		{name: "interrupt-tool", needs: interrupts, play: (*Rig).playInterruptTool},
		{name: "interrupt-subagent", needs: delegates, play: (*Rig).playInterruptSubagent},

		{name: "permission-allow", needs: approves, options: ask, play: (*Rig).playAllow},
		{name: "permission-deny", needs: approves, options: ask, play: (*Rig).playDeny},
		{name: "permission-deny-heard", needs: approves, options: ask, play: (*Rig).playDenyHeard},
		{name: "permission-never", needs: approves, options: ask, play: (*Rig).playNeverAnswered},
		{name: "permission-policy", needs: approves, options: Options{Permission: adapters.PermissionDeny}, play: (*Rig).playPolicy},
		{name: "permission-change", needs: approves, options: ask, play: (*Rig).playPermissionChange},
		{name: "permission-tightened", needs: approves, play: (*Rig).playPermissionTightened},
		{name: "permission-subagent", needs: approves, options: ask, play: (*Rig).playPermissionSubagent},
		{name: "question", needs: asks, options: ask, play: (*Rig).playQuestion},

		{name: "unknown-events", options: Options{Unknown: true}, play: (*Rig).playUnknown},
		{name: "kill-stream", play: (*Rig).playKillStream, fresh: true},
		{name: "kill-tool", play: (*Rig).playKillTool},
		{name: "kill-subagent", needs: delegates, play: (*Rig).playKillSubagent},
		{name: "kill-host", play: (*Rig).playKillHost},

		{name: "steer", needs: steers, play: (*Rig).playSteer},
		{name: "set-model", needs: setsModel, play: (*Rig).playSetModel},
		{name: "image", needs: sees, play: (*Rig).playImage},
		{name: "compact", needs: compacts, play: (*Rig).playCompact},
		{name: "profile", options: Options{Profile: &demonstration}, play: (*Rig).playProfile},
		{name: "system-prompt", options: Options{SystemPrompt: "MARK-SYSTEM-PROMPT"}, play: (*Rig).playSystemPrompt},
	}
}
