// Package batch runs many jobs: a batch is a workflow that keeps a window of them at work,
// tries again what failed and may be tried again, stops at a cost, can be paused, and ends
// with a line for each item and a report, in the archive.
//
// Its items are lines of JSON, which [Start] writes into the archive; the workflow has only
// their number. So a million items cost it no more memory than a hundred, and its history has
// a few events for each, in as many runs as it takes.
//
// [Input], [Line], [Progress] and [Report] are the contract, as JSON; [Workflow] and
// [ItemWorkflow] are registered as [Type] and [ItemType] on the sessions' task queue.
package batch
