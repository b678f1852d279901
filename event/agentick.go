package event

// Equivalent says how a stream event of Agentick is said here.
type Equivalent struct {
	// Agentick is the event's name there.
	Agentick string
	// Types are the events that say the same here, in the order in which they
	// come; none when nothing does.
	Types []Type
	// How says which part of them, or why there is none.
	How string
}

// AgentickEquivalents is the table for clients that know Agentick's stream
// events: every kind of them with the events that say the same here. In short:
// start, delta, end and whole of a thing are one block that is upserted
// pending, grown by deltas and upserted complete; an execution is a query; a
// tick (one model call) shows as its blocks and its usage; a spawn is a
// subagent; a fork is a session of its own.
//
//	content_start, _delta, _end, content      block:upsert, block:delta (assistant_text)
//	reasoning_start, _delta, _end, reasoning  block:upsert, block:delta (thinking)
//	tool_call_start, _delta, _end, tool_call  block:upsert (tool_use)
//	tool_result_start, tool_result            block:upsert (tool_result)
//	tool_confirmation_required, _result       permission:requested, permission:resolved
//	message_start, message_end, message       block:upsert, metadata:update
//	execution_start, execution_end, execution query:started, query:completed|failed|interrupted
//	tick_start, tick_end, tick                metadata:update, session:idle
//	usage, context_update                     metadata:update
//	entry_committed                           block:upsert (complete), transcript:changed
//	spawn_start, spawn_end                    subagent:spawned, subagent:completed
//	fork_start, fork_end                      session:initialized
//	error, engine_error                       error, block:upsert (error)
//	result                                    query:completed
//	compiled, model_request, model_response   native
//	provider_request                          native
func AgentickEquivalents() []Equivalent {
	block := []Type{TypeBlockUpsert}
	text := []Type{TypeBlockDelta}
	usage := []Type{TypeMetadataUpdate}
	ended := []Type{TypeQueryCompleted, TypeQueryFailed, TypeQueryInterrupted}
	native := []Type{TypeNative}
	return []Equivalent{
		{"content_start", block, "assistant_text, pending"},
		{"content_delta", text, "of the assistant_text block"},
		{"content_end", block, "assistant_text, complete"},
		{"content", block, "assistant_text, complete, with the whole content"},
		{"reasoning_start", block, "thinking, pending"},
		{"reasoning_delta", text, "of the thinking block"},
		{"reasoning_end", block, "thinking, complete"},
		{"reasoning", block, "thinking, complete, with the whole content"},
		{"message_start", block, "the message's first block; model on assistant_text"},
		{"message_end", usage, "usage and model of the message"},
		{"message", []Type{TypeBlockUpsert, TypeMetadataUpdate}, "a message is its blocks"},
		{"tool_call_start", block, "tool_use, pending, with toolName and toolUseId"},
		{"tool_call_delta", nil, "input is given whole: half a JSON value is of use to nobody"},
		{"tool_call_end", block, "tool_use, complete"},
		{"tool_call", block, "tool_use, complete, with input"},
		{"tool_result_start", block, "tool_use with execution status running"},
		{"tool_result", block, "tool_result; tool_use with execution status success or error"},
		{"tool_confirmation_required", []Type{TypePermissionRequested}, "with requestId, toolName and input"},
		{"tool_confirmation_result", []Type{TypePermissionResolved}, "with decision allow or deny"},
		{"usage", usage, "usage"},
		{"context_update", usage, "usage and model; the rest in extra"},
		{"error", []Type{TypeError, TypeBlockUpsert}, "a fault of the model is an error block as well"},
		{"engine_error", []Type{TypeError}, "a fault beside the conversation"},
		{"execution_start", []Type{TypeQueryStarted}, "with executionId and messageIds"},
		{"execution_end", ended, "by how it ended"},
		{"execution", ended, "with the result"},
		{"result", []Type{TypeQueryCompleted}, "with response, usage and stopReason"},
		{"tick_start", nil, "one model call; its blocks show it"},
		{"tick_end", usage, "usage of the call"},
		{"tick", []Type{TypeMetadataUpdate, TypeSessionIdle}, "usage; idle after the last one"},
		{"entry_committed", []Type{TypeBlockUpsert, TypeTranscriptChanged}, "complete; archived when the transcript changed"},
		{"spawn_start", []Type{TypeSubagentSpawned}, "in the parent's conversation"},
		{"spawn_end", []Type{TypeSubagentCompleted}, "after all events of the child"},
		{"fork_start", []Type{TypeSessionInitialized}, "in the new session's own stream, with parent"},
		{"fork_end", nil, "a fork is made in one step"},
		{"compiled", native, "where the agent tells it"},
		{"model_request", native, "where the agent tells it"},
		{"provider_request", native, "where the agent tells it"},
		{"model_response", native, "where the agent tells it"},
	}
}
