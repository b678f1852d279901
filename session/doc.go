// Package session is the contract of a session and the Go client for it.
//
// A session is one conversation with one coding agent in one sandbox. It runs as a Temporal
// workflow whose workflow id is the session id, so any Temporal client can use it: this
// package, the Web UI, or a bare client that signals "message" with a plain string.
//
// [NewClient] returns the client. [Client.Open] creates a session, attaches to a running
// one or reopens a closed one; [Handle.Send] returns when a message is accepted and
// [Handle.Wait] when it is answered. While the agent works, its output is in the session's
// event stream, [Handle.Events]; after the session is closed, [Client.Show] reads the same
// conversation from the archive, with no sandbox and no worker. The package example is a
// whole program.
//
// What a process asks passes through an [Interceptor], of the client or of a handle
// ([Handle.Use]); what happens in a session is called back by [Handle.Listen]. What a closed
// session is called and kept under can be changed ([Client.Amend]).
//
// Messages to the workflow, by kind: the updates send, render, interrupt, clear-abort,
// spawn, respond, edit-queue, configure, evict and close; the signals message, queue,
// interrupt and respond, and waiting, which the running turn sends; the queries snapshot,
// inspect and result, and final-state for the cleanup. Their inputs and outputs are the
// structs of this package, as JSON.
package session
