// Package event is the common format that every agent is translated into: events,
// the blocks they carry, and the native records they were made from.
//
// An [Event] is what subscribers see on the wire:
//
//	{"type": "block:delta",
//	 "payload": {"blockId": "msg_1:0", "delta": "Hel"},
//	 "context": {"sessionId": "s1", "conversationId": "main",
//	             "source": "runner", "timestamp": "…", "seq": 7}}
//
// The payload is a sum type: one Go struct per event type, see [Payload]. A type
// that this version does not know decodes to [Unknown] and is kept byte for byte,
// so an older reader never loses what a newer writer wrote.
//
// A [Block] is one atomic piece of a conversation. On the wire a block may be
// partial: only the fields given are merged into the block of the same id
// (package reducer does the merging).
//
// A [Record] is one line of an agent's native traffic as the runner spooled it;
// adapters translate records to events. Events take their time from the record
// and their ids from native ids or positions, so the same records always make the
// same events.
//
// Package jsonl reads and writes both as JSON lines. Nothing is lost on the way:
// what is not valid UTF-8 travels in base64 beside its readable form.
//
// The package depends on the standard library only. Values are plain data:
// safe to copy, and safe for concurrent reading while nothing writes.
package event
