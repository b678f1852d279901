package adaptertest

import (
	"github.com/sojourn-run/sojourn/adapters"
)

// The capabilities that scenarios need.
func thinks(_ Agent, c adapters.Capabilities) bool      { return c.Thinking }
func subagentsOf(_ Agent, c adapters.Capabilities) bool { return c.Subagents }
func interrupts(_ Agent, c adapters.Capabilities) bool  { return c.Interrupt }
func approves(_ Agent, c adapters.Capabilities) bool    { return c.Approve }
func asks(_ Agent, c adapters.Capabilities) bool        { return c.Questions }
func steers(_ Agent, c adapters.Capabilities) bool      { return c.Steer }
func setsModel(_ Agent, c adapters.Capabilities) bool   { return c.SetModel }
func takesImages(_ Agent, c adapters.Capabilities) bool { return c.Images }
func compacts(a Agent, _ adapters.Capabilities) bool    { return a.Compact != "" }

var asking = Options{Permission: adapters.PermissionAsk}

// scenarios are all, in the order of the session's life.
func scenarios() []scenario {
	return []scenario{
		{name: "new", play: (*Rig).playNew},
		{name: "warm", play: (*Rig).playWarm},
		{name: "resume-second-process", play: (*Rig).playSecondProcess},
		{name: "resume-other-host", play: (*Rig).playOtherHost, fresh: true},
		{name: "resume-young", play: (*Rig).playYoung},
		{name: "tool-success", play: (*Rig).playToolSuccess},
		{name: "tool-failure", play: (*Rig).playToolFailure},
		{name: "tool-parallel", play: (*Rig).playToolParallel, fresh: true},
		{name: "tool-write-read", play: (*Rig).playToolWriteRead},
		{name: "thinking", needs: "thinking", has: thinks, play: (*Rig).playThinking},
		{name: "subagent", needs: "subagents", has: subagentsOf, play: (*Rig).playSubagent, fresh: true},
		{name: "interrupt-stream", needs: "interrupt", has: interrupts, play: (*Rig).playInterruptStream, fresh: true},
		{name: "interrupt-tool", needs: "interrupt", has: interrupts, play: (*Rig).playInterruptTool},
	}
}
