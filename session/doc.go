// Package session is the contract of a session and the Go client for it.
//
// A session is one conversation with one coding agent in one sandbox. It runs
// as a Temporal workflow whose workflow id is the session id, so anything that
// speaks Temporal can talk to it: this package, the Web UI, or a bare client
// that signals "message" with a plain string.
//
//	c, err := session.NewClient(session.ClientOptions{Temporal: t, Stream: log, Archive: store})
//	h, err := c.Open(ctx, "", session.Options{Agent: "claude"})
//	r, err := h.Send(ctx, session.Message{Text: "Say hello"})
//	res, err := h.Wait(ctx, r)
//	fmt.Println(res.Response)
//
// While it works, everything the agent says is in the session's event stream:
//
//	for ev, err := range h.Events(ctx, 0, session.Follow) { … }
//
// and after the session is closed, Show gives the same conversation from the
// archive, with no sandbox and no worker.
//
// Messages to the workflow, by kind: the updates send, render, interrupt,
// clear-abort, spawn, respond, configure, evict and close; the signals message,
// queue and interrupt; the queries snapshot, inspect and result. Their inputs
// and outputs are the structs of this package, as JSON.
package session
