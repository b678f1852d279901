package session

import (
	"context"
	"slices"
)

// Operation is what a Call asks of a session.
type Operation string

// The operations that are intercepted, with what Request and Reply of their Call point at.
const (
	OperationCreate    Operation = "create"     // *Options, *Handle
	OperationSend      Operation = "send"       // *Message, *Receipt
	OperationQueue     Operation = "queue"      // *Message, none
	OperationRender    Operation = "render"     // *Configure, *RenderReply
	OperationSpawn     Operation = "spawn"      // *SpawnRequest, *SpawnReply
	OperationInterrupt Operation = "interrupt"  // *InterruptRequest, *InterruptReply
	OperationEditQueue Operation = "edit-queue" // *QueueEdit, *Snapshot
	OperationClose     Operation = "close"      // none, none
)

// Call is an operation as an Interceptor has it.
type Call struct {
	Operation Operation
	SessionID string
	// Request points at what is asked; nil for none. An interceptor may change it before it
	// continues: what it becomes is validated as if the caller had asked it. The ids of messages
	// and of children stay as they are.
	Request any
	// Reply points at what is returned, which is set when the call has continued; nil for none.
	Reply any
}

// Interceptor is called in place of an operation. It continues by next, with a context of its
// own if it wants, and may do so again: ids stay, so a session is made once, and a message is
// accepted once, as it was the first time; with another text it is refused. If it does not
// continue, nothing is asked, and the caller has its error and what it has put into Reply; for a
// new session that is an error in any case. It must be safe for concurrent use.
type Interceptor func(ctx context.Context, call *Call, next func(context.Context) error) error

// Use returns a handle of the same session whose operations pass through the interceptors, the
// first one first, inside those of the client and of h. h does not change, and children that
// are spawned do not inherit them.
func (h *Handle) Use(interceptors ...Interceptor) *Handle {
	with := *h
	with.interceptors = slices.Concat(h.interceptors, interceptors)
	return &with
}

func (h *Handle) intercepted(ctx context.Context, call *Call, do func(context.Context) error) error {
	call.SessionID = h.id
	return intercepted(ctx, slices.Concat(h.c.o.Interceptors, h.interceptors), call, do)
}

func intercepted(ctx context.Context, by []Interceptor, call *Call, do func(context.Context) error) error {
	for _, i := range slices.Backward(by) {
		next := do
		do = func(ctx context.Context) error { return i(ctx, call, next) }
	}
	return do(ctx)
}
