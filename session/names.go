package session

import "time"

// WorkflowType is the name under which the session workflow is registered.
const WorkflowType = "SojournSession"

// Names of the workflow's messages. An update is validated before it enters
// history; a signal can not be refused.
const (
	UpdateSend       = "send"
	UpdateRender     = "render"
	UpdateInterrupt  = "interrupt"
	UpdateClearAbort = "clear-abort"
	UpdateSpawn      = "spawn"
	UpdateRespond    = "respond"
	UpdateEditQueue  = "edit-queue"
	UpdateConfigure  = "configure"
	UpdateEvict      = "evict"
	UpdateClose      = "close"

	SignalMessage   = "message"
	SignalQueue     = "queue"
	SignalInterrupt = "interrupt"
	// SignalRespond answers a permission request without waiting for the result; see
	// DecodeRespond.
	SignalRespond = "respond"
	// SignalWaiting is sent by RunTurn, with the permission requests that wait for a
	// person.
	SignalWaiting = "waiting"

	QuerySnapshot = "snapshot"
	QueryInspect  = "inspect"
	QueryResult   = "result"
	QueryReceipt  = "receipt"
	// QueryFinalState is for the cleanup after a session that was ended from
	// outside.
	QueryFinalState = "final-state"
)

// Task queues. Workflows and light activities run on TaskQueue; sandboxes are created on
// CreateQueue, which a host polls only while it has a free slot or an idle sandbox that can
// be evicted; turns and control run on the queues of the sandbox's host. Activities that
// wait for a child session to end run on WatchQueue, so that they don't delay the others,
// however many there are.
const (
	TaskQueue   = "sojourn"
	CreateQueue = "sojourn-create"
	WatchQueue  = "sojourn-watch"
)

// HostQueue returns the task queue for the turns of the sandboxes on a host.
func HostQueue(host string) string { return "host-" + host }

// ControlQueue returns the task queue for short activities on a host, so that an
// interrupt never waits behind a running turn.
func ControlQueue(host string) string { return "host-" + host + "-control" }

// FirstExecution is the id of a session's first execution.
const FirstExecution = "x1"

// ToolCallPrefix begins the id of the workflow that a call of a program's tool is; the session's id
// and the call's follow, with "/" between them.
const ToolCallPrefix = "tool-call/"

// ContinueText is the prompt when a limit that had interrupted the agent is
// raised.
const ContinueText = "Continue where you stopped."

// RenderText is the prompt of an execution that a render starts with nothing queued: an
// agent starts a turn only on a prompt.
const RenderText = "The settings of this session have changed. Continue with them."

// Limits that the workflow enforces.
const (
	// MaxDepth is how deep sessions may spawn sessions; the root has depth 0.
	MaxDepth = 10
	// MaxSystemPrompt bounds a session's system prompt, in bytes.
	MaxSystemPrompt = 64 << 10
	// MaxChildren bounds the live children of a session: a session with live children
	// can't continue as new.
	MaxChildren = 100
	// MaxMessageBytes bounds a message with all its parts, as JSON. Temporal
	// refuses payloads over 2 MiB, and a message travels twice in one task.
	MaxMessageBytes = 1 << 20
	// MaxQueue bounds the queued messages.
	MaxQueue = 1000
	// MaxQueueBytes bounds the whole queue, beyond its first message: it is part of
	// the state in a worker's memory.
	MaxQueueBytes = 16 << 20
	// KeptReceipts is how many message ids a session remembers, so that a
	// repeated send returns the first receipt.
	KeptReceipts = 1000
	// KeptIDs is how many further message ids a session remembers without their
	// receipts: such a message is refused. They take 8 bytes each.
	KeptIDs = 100_000
	// RecordedIDs is how many of all message ids a closed session's record keeps:
	// when it is reopened it refuses them.
	RecordedIDs = 10_000
	// KeptResults is how many executions the query result covers.
	KeptResults = 100
	// DefaultIdleTimeout ends the sandbox of a session in which nothing runs.
	DefaultIdleTimeout = 15 * time.Minute
	// WorkflowTaskTimeout is how long a worker may take for a step of a session's
	// workflow, which needs milliseconds, and a replay less than a second. A session
	// waits that long for a worker that was killed in the middle of one.
	WorkflowTaskTimeout = 5 * time.Second
	// DefaultNoProgress is how long an agent may be silent in a turn.
	DefaultNoProgress = 15 * time.Minute
)
