// Package agenttools has the tools that an agent has of Sojourn: those by which it starts and uses
// child sessions, and those of programs that its session names. The runner offers them to the agent
// by MCP (sojourn-runner mcp); package serving answers them on the worker.
package agenttools

import "encoding/json"

// Server is the name of the MCP server, by which agents prefix its tools.
const Server = "sojourn"

// The tools.
const (
	SpawnAgent   = "spawn_agent"
	ListAgents   = "list_agents"
	WaitAgent    = "wait_agent"
	MessageAgent = "message_agent"
	StopAgent    = "stop_agent"
	// WaitTool is for the result of a program's tool that takes longer than a call may wait.
	WaitTool = "wait_tool"
)

// Own reports whether a name is that of one of these tools.
func Own(name string) bool {
	switch name {
	case SpawnAgent, ListAgents, WaitAgent, MessageAgent, StopAgent, WaitTool:
		return true
	}
	return false
}

// Program is a program's tool as the agent sees it. Input is a JSON schema; nil for any object.
type Program struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"input,omitempty"`
}

// WaitProgram are the arguments of WaitTool.
type WaitProgram struct {
	CallID      string `json:"call_id" jsonschema:"The call, by the id that its result has."`
	WaitSeconds *int   `json:"wait_seconds,omitempty" jsonschema:"How long to wait, 0 to 45. Default: 45."`
}

// StillRunning is the result of a call that is not done yet.
func StillRunning(call string) Pending {
	return Pending{CallID: call, Status: Running, Next: "It is still running. Go on with other work, or call wait_tool with this call_id."}
}

// Pending is the result of a call of a program's tool that is not done yet.
type Pending struct {
	CallID string `json:"call_id"`
	Status Status `json:"status"`
	// Next is what the caller can do now.
	Next string `json:"next"`
}

// MaxWaitSeconds bounds how long a call waits for an answer, and is the default. Agents
// have timeouts of their own for tools, the shortest of a minute (OpenCode 1.18.33); an agent
// that is still at work then is asked for by its id.
const MaxWaitSeconds = 45

// Spawn are the arguments of SpawnAgent.
type Spawn struct {
	Prompt      string  `json:"prompt" jsonschema:"The whole task. The other agent sees nothing of this conversation, and none of its files unless sandbox is parent."`
	Agent       string  `json:"agent,omitempty" jsonschema:"Which agent: claude, codex, gemini, opencode. Default: one like you."`
	Model       string  `json:"model,omitempty" jsonschema:"The agent's name for the model. Default: the agent's own."`
	Profile     string  `json:"profile,omitempty" jsonschema:"The id of an agent profile. Default: none."`
	Sandbox     string  `json:"sandbox,omitempty" jsonschema:"own: the other agent works in an empty folder of its own. parent: in your folder, beside you, and what it changes there you see. Default: own, or parent if you work in another agent's folder yourself."`
	MaxCostUSD  float64 `json:"max_cost_usd,omitempty" jsonschema:"What the other agent may cost, in dollars, with its own agents: it is held when it has cost that. Default: no limit, or a part of what is left of yours."`
	MaxTokens   int64   `json:"max_tokens,omitempty" jsonschema:"How many tokens it may use, input and output, with its own agents. Default: as of max_cost_usd."`
	Description string  `json:"description,omitempty" jsonschema:"The task in a few words, for people who look at a list."`
	WaitSeconds *int    `json:"wait_seconds,omitempty" jsonschema:"How long to wait for the answer, 0 to 45. Default: 45."`
}

// List are the arguments of ListAgents.
type List struct{}

// Wait are the arguments of WaitAgent.
type Wait struct {
	AgentIDs    []string `json:"agent_ids" jsonschema:"The agents to wait for, all of them."`
	WaitSeconds *int     `json:"wait_seconds,omitempty" jsonschema:"How long to wait, 0 to 45. Default: 45."`
}

// Message are the arguments of MessageAgent.
type Message struct {
	AgentID     string `json:"agent_id" jsonschema:"The agent."`
	Message     string `json:"message" jsonschema:"The message. The agent gets it at its next step, or behind what it is doing."`
	WaitSeconds *int   `json:"wait_seconds,omitempty" jsonschema:"How long to wait for the answer, 0 to 45. Default: 45."`
}

// Stop are the arguments of StopAgent.
type Stop struct {
	AgentID string `json:"agent_id" jsonschema:"The agent. What it does is interrupted, and it and its own agents end."`
}

// Status is how an agent is.
type Status string

const (
	// Running: it has no answer yet.
	Running Status = "running"
	// Waiting: a person must decide something first.
	Waiting Status = "waiting"
	// Answered: it has done all that it was asked, and ends.
	Answered    Status = "answered"
	Failed      Status = "failed"
	Interrupted Status = "interrupted"
	// Stopped: it was ended before it could answer.
	Stopped Status = "stopped"
)

// Agent is the result about one agent.
type Agent struct {
	AgentID     string `json:"agent_id"`
	Agent       string `json:"agent,omitempty"`
	Description string `json:"description,omitempty"`
	Status      Status `json:"status"`
	// Answer is its last answer; of one that failed or was interrupted, why.
	Answer string `json:"answer,omitempty"`
	// Next is what the caller can do now.
	Next string `json:"next,omitempty"`
}
