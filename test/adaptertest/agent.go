package adaptertest

import (
	"encoding/json"
	"math/rand/v2"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/parity"
)

// Agent is what an adapter's test says of its agent. Only Adapter is
// required.
type Agent struct {
	Adapter adapters.Adapter
	// Env is added, NAME=value, to what leads each agent to the model server
	// (modelsim.Environment), as a host passes it on by SOJOURN_PASS_ENV.
	// Settings that keep retries short belong here. Default: nothing.
	Env []string
	// RetriesForever says that the agent asks a model that fails again until
	// somebody interrupts it. Default: it gives up by itself.
	RetriesForever bool
	// RetriesSilently says that nobody is told when the agent asks again; the
	// turn is interrupted at the model's second request. Default: it tells.
	RetriesSilently bool
	// SealedTasks says that what a subagent was started with is for its model's
	// eyes only. Default: it is told.
	SealedTasks bool
	// Files may change the files of a profile, and add some: settings for tests
	// that have no variable. Default: they are written as they are.
	Files func(adapters.Launch, []adapters.File) []adapters.File
	// Shared says that another adapter's suite has the same program: a short run
	// plays one scenario. Default: the program is this adapter's own.
	Shared bool
	// Model is the model that sessions are started with, and OtherModel one to
	// change to. Defaults: the agent's own; without OtherModel none is changed.
	Model, OtherModel string
	// Rules are what the live side of the agent's own mode cannot have.
	// Default: everything is equal.
	Rules parity.Rules
	// Missing names scenarios that the agent cannot do, each with the reason.
	// What Info().Capabilities denies need not be named, and what it claims
	// must not be.
	Missing map[string]string

	// Question is how the agent is made to ask its user. Required where
	// Capabilities say Questions.
	Question Question
	// Compact is the message that makes the agent sum up its conversation.
	// Default: it has none.
	Compact string
	// Tool is the agent's name for a tool of an MCP server, as its model is
	// offered it. Default: the scenario with a profile calls none.
	Tool func(server, tool string) string
	// Big is the script that makes the agent print a line of 64 MiB or more: the
	// result of the tool "big" of the MCP server "kit", say. Default: a text of
	// that length.
	Big string
	// Unknown makes a native record that no version of the agent prints, for
	// every way in which one can be unknown. Default: JSON objects of unknown
	// type and method.
	Unknown func(r *rand.Rand) string
	// Profile is every session's. Default: empty.
	Profile adapters.Profile
}

// Question is a question of the agent to its user.
type Question struct {
	// Script makes the model ask.
	Script string
	// Answer is the input of the answer, as a client would send it.
	Answer func(asked event.PermissionRequested) json.RawMessage
	// Heard is a word of the answer that the model must get to see.
	Heard string
}

func (a Agent) name() string { return a.Adapter.Info().Name }

// Options of a Rig. The zero value works.
type Options struct {
	// Permission is what the session is started with. Default: allow.
	Permission adapters.Permission
	// Profile takes the place of the agent's. Default: Agent.Profile.
	Profile *adapters.Profile
	// Env is added to the agent's environment, NAME=value. Default: none.
	Env []string
	// Unknown mixes records that nobody knows among the agent's own before
	// they are translated. Default: none.
	Unknown bool
	// SystemPrompt is appended to the agent's own. Default: none.
	SystemPrompt string
}
