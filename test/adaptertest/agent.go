package adaptertest

import (
	"encoding/json"
	"math/rand/v2"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/parity"
)

// Agent describes the agent under test. Only Adapter is required.
type Agent struct {
	Adapter adapters.Adapter
	// Env is added, as NAME=value, to the variables that point each agent to the model
	// server (modelsim.Environment), as a host passes it on by SOJOURN_PASS_ENV.
	// Settings that keep retries short are set here. Default: nothing.
	Env []string
	// RetriesForever: the agent retries a failing model until it is interrupted.
	// Default: it gives up.
	RetriesForever bool
	// RetriesSilently: the agent emits no event when it retries. The turn is then
	// interrupted at the model's second request. Default: it emits one.
	RetriesSilently bool
	// SealedTasks: the prompt of a subagent is visible to its model only. Default: it
	// is in the events.
	SealedTasks bool
	// Files may change and add files of a profile, for settings in tests that have no
	// variable. Default: they are written unchanged.
	Files func(adapters.Launch, []adapters.File) []adapters.File
	// Shared: another adapter's suite runs the same program, so a short run plays one
	// scenario only. Default: false.
	Shared bool
	// Model is the model that sessions start with, OtherModel one to change to.
	// Defaults: the agent's own model; without OtherModel the model is never changed.
	Model, OtherModel string
	// Rules are the deviations of the live side in the agent's own mode. Default:
	// everything is equal.
	Rules parity.Rules
	// Missing has the scenarios that the agent can't do, by name, with the reasons.
	// Those that Info().Capabilities denies are skipped anyway, and those that it
	// claims must not be listed.
	Missing map[string]string

	// Question makes the agent ask its user. Required if Capabilities has Questions.
	Question Question
	// Compact is the message that makes the agent compact its conversation. Default: it
	// has none.
	Compact string
	// Tool returns the agent's name for a tool of an MCP server, as its model gets it.
	// Default: the scenario with a profile calls no tool.
	Tool func(server, tool string) string
	// Big is the script that makes the agent print a line of 64 MiB or more, such as
	// the result of the tool "big" of the MCP server "kit". Default: a text of that
	// length.
	Big string
	// Unknown creates a native record that no version of the agent prints, of every
	// kind that can be unknown. Default: JSON objects of unknown type and method.
	Unknown func(r *rand.Rand) string
	// Hostile are files of a workspace, by their paths, that would have the agent run a tool
	// unasked, or run something themselves: what they run is to create the file Unasked.
	// Default: none.
	Hostile map[string]string
	// Instructions is the file of a workspace whose text the model gets, whether the agent asks
	// or not. Default: none.
	Instructions string
	// Profile is the profile of every session. Default: empty.
	Profile adapters.Profile
}

// Unasked is the file that a hostile workspace's commands create; see [Agent].
const Unasked = "unasked"

// Question is a question of the agent to its user.
type Question struct {
	// Script makes the model ask.
	Script string
	// Answer returns the input of the answer, as a client would send it.
	Answer func(asked event.PermissionRequested) json.RawMessage
	// Heard is a word of the answer that must be in a request to the model.
	Heard string
}

func (a Agent) name() string { return a.Adapter.Info().Name }

// Options of a Rig. The zero value works.
type Options struct {
	// Permission is the permission mode at the start. Default: allow.
	Permission adapters.Permission
	// Profile replaces the agent's. Default: Agent.Profile.
	Profile *adapters.Profile
	// Env is added to the agent's environment, NAME=value. Default: none.
	Env []string
	// Unknown inserts unknown records among the agent's own before they are translated.
	// Default: none.
	Unknown bool
	// SystemPrompt is appended to the agent's own. Default: none.
	SystemPrompt string
}
