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
	// SignalRespond answers a permission request without waiting for what comes of
	// it; see DecodeRespond.
	SignalRespond = "respond"
	// SignalWaiting is RunTurn's: which permission requests wait for a person.
	SignalWaiting = "waiting"

	QuerySnapshot = "snapshot"
	QueryInspect  = "inspect"
	QueryResult   = "result"
	// QueryFinalState is for the cleanup after a session that was ended from
	// outside.
	QueryFinalState = "final-state"
)

// Task queues. Workflows and light activities run on TaskQueue; sandboxes are
// created on CreateQueue, which a host polls only while it has a free slot or an
// idle sandbox that can be evicted; turns and control run on the queues of the
// host that has the sandbox.
const (
	TaskQueue   = "sojourn"
	CreateQueue = "sojourn-create"
)

// HostQueue takes the turns of the sandboxes on a host.
func HostQueue(host string) string { return "host-" + host }

// ControlQueue takes short activities for a host, so that an interrupt never
// waits behind a running turn.
func ControlQueue(host string) string { return "host-" + host + "-control" }

// FirstExecution is the id of a session's first execution.
const FirstExecution = "x1"

// ContinueText is what an agent is asked when a limit that had interrupted it is
// raised.
const ContinueText = "Continue where you stopped."

// Limits that the workflow keeps.
const (
	// MaxDepth is how deep sessions may spawn sessions; the root has depth 0.
	MaxDepth = 10
	// MaxChildren bounds the spawned sessions that live at once below one: a
	// session with live children can't continue as new.
	MaxChildren = 100
	// MaxMessageBytes bounds a message with all its parts, as JSON. Temporal
	// refuses payloads over 2 MiB, and a message travels twice in one task.
	MaxMessageBytes = 1 << 20
	// MaxQueue bounds the messages that wait.
	MaxQueue = 1000
	// MaxQueueBytes bounds what waits in all, beyond the first message: it is
	// part of the state in a worker's memory.
	MaxQueueBytes = 16 << 20
	// KeptReceipts is how many message ids a session remembers, so that a
	// repeated send returns the first receipt.
	KeptReceipts = 1000
	// KeptIDs is how many message ids a session knows again whose receipts it no
	// longer has: such a message is refused. They take 8 bytes each.
	KeptIDs = 100_000
	// RecordedIDs is how many of all message ids a closed session's record keeps: one
	// that is reopened refuses them.
	RecordedIDs = 10_000
	// KeptResults is how many executions the query result can answer for.
	KeptResults = 100
	// DefaultIdleTimeout ends the sandbox of a session in which nothing runs.
	DefaultIdleTimeout = 15 * time.Minute
	// WorkflowTaskTimeout is how long a worker may take for a step of a session's
	// workflow, which needs milliseconds, and a replay less than a second. For so
	// long a session waits for a worker that was killed in the middle of one.
	WorkflowTaskTimeout = 5 * time.Second
	// DefaultNoProgress is how long an agent may say nothing in a turn.
	DefaultNoProgress = 15 * time.Minute
)
