// Package session is the contract of a session and the Go client for it.
//
// A session is one conversation with one coding agent in one sandbox. It runs
// as a Temporal workflow whose workflow id is the session id, so anything that
// speaks Temporal can talk to it: this package, the Web UI, or a bare client
// that signals "message" with a plain string.
//
// [NewClient] makes the client. [Client.Open] makes a session, attaches to a
// running one or reopens a closed one; [Handle.Send] returns when a message is
// accepted and [Handle.Wait] when it is answered. While the agent works,
// everything that it says is in the session's event stream, [Handle.Events];
// after the session is closed, [Client.Show] reads the same conversation from
// the archive, with no sandbox and no worker. The package example is a whole
// program.
//
// Messages to the workflow, by kind: the updates send, render, interrupt,
// clear-abort, spawn, respond, configure, evict and close; the signals message,
// queue and interrupt, and waiting, which is the running turn's own; the queries snapshot, inspect and result. Their inputs
// and outputs are the structs of this package, as JSON.
package session
