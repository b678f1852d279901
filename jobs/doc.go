// Package jobs has work that is asked once and has a typed result: a job is a workflow that
// any workflow can start as a child by its name, from any of Temporal's SDKs, or any client.
// It runs one session with one agent, checks the answer against a schema, has the agent
// repair it if it does not match, closes the session, and returns the answer, the cost and
// the files that were asked for.
//
// [Input] and [Result] are the contract, as JSON; the workflow is [Workflow], registered as
// [Type] on the sessions' task queue. A job's failure is an application error whose type
// is the reason, with the Result so far as its detail.
package jobs

//go:generate go run ../internal/contract .. ../docs
