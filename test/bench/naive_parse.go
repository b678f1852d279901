package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/sojourn-run/sojourn/event/traffic"
)

// The following does in Go what comparable systems do in TypeScript: a transcript is
// read whole and split into lines, each line becomes an object, the object becomes
// events, and the reducer returns a new array of blocks for each event
// (state.blocks.findIndex, then [...blocks, block] or blocks.map). It is as fast as
// that can be without another algorithm.

// object is a JSON object as in JavaScript.
type object = map[string]any

// naiveParse returns the main conversation's blocks.
func naiveParse(path string) ([]object, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var blocks []object
	for _, line := range strings.Split(string(data), "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		var entry object
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			return nil, fmt.Errorf("naive: %w", err)
		}
		for _, e := range naiveEvents(entry) {
			blocks = naiveReduce(blocks, e)
		}
	}
	return blocks, nil
}

// naiveEvents returns the events of a line: whole blocks.
func naiveEvents(entry object) []object {
	message, _ := entry["message"].(object)
	if message == nil {
		return nil
	}
	parts, isList := message["content"].([]any)
	if !isList {
		parts = []any{object{"type": "text", "text": message["content"]}}
	}
	var events []object
	for i, p := range parts {
		part, _ := p.(object)
		if block := naiveBlock(entry, part, i); block != nil {
			events = append(events, object{"type": "block:upsert", "payload": object{"block": block}})
		}
	}
	return events
}

func naiveBlock(entry, part object, i int) object {
	block := object{"id": fmt.Sprintf("%v:%d", entry["uuid"], i), "status": "complete", "timestamp": entry["timestamp"]}
	switch part["type"] {
	case "text":
		block["type"], block["content"] = "assistant_text", part["text"]
		if entry["type"] == "user" {
			block["type"] = "user_message"
		}
	case "thinking":
		block["type"], block["content"] = "thinking", part["thinking"]
	case "tool_use":
		block["type"], block["toolName"], block["toolUseId"], block["input"] = "tool_use", part["name"], part["id"], part["input"]
		block["id"] = part["id"]
	case "tool_result":
		block["type"], block["toolUseId"], block["output"], block["isError"] = "tool_result", part["tool_use_id"], part["content"], part["is_error"]
	default:
		return nil
	}
	return block
}

// naiveReduce never changes its arguments.
func naiveReduce(blocks []object, e object) []object {
	block := e["payload"].(object)["block"].(object)
	at := -1
	for i, b := range blocks {
		if b["id"] == block["id"] {
			at = i
			break
		}
	}
	next := make([]object, len(blocks), len(blocks)+1)
	copy(next, blocks)
	if at < 0 {
		return append(next, block)
	}
	merged := object{}
	for k, v := range blocks[at] {
		merged[k] = v
	}
	for k, v := range block {
		merged[k] = v
	}
	next[at] = merged
	return next
}

// naiveTranslate decodes each line to an object, and that to events.
func naiveTranslate(records []traffic.Record) error {
	events := 0
	for _, r := range records {
		var entry object
		if err := json.Unmarshal([]byte(r.Line), &entry); err != nil {
			return fmt.Errorf("naive: %w", err)
		}
		if partial, _ := entry["event"].(object); partial != nil {
			if delta, _ := partial["delta"].(object); delta != nil && delta["text"] != nil {
				e := object{"type": "block:delta", "payload": object{"blockId": fmt.Sprint(partial["index"]), "delta": delta["text"]}}
				events += len(e) / 2
			}
			continue
		}
		events += len(naiveEvents(entry))
	}
	if events == 0 {
		return fmt.Errorf("naive: no events")
	}
	return nil
}
