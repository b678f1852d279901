package reducer

import (
	"encoding/json"
	"strings"

	"github.com/sojourn-run/sojourn/event"
)

// naive is a second reducer, as simple as possible: states and events are JSON
// values, every step searches everything, nothing is shared or indexed. It shares
// no code with the package, so that an error in one of them shows as a
// difference.
type naive struct {
	blocks    []object
	subagents []object // each with "blocks": []object
}

type object map[string]any

func toObject(v any) object {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		panic(err)
	}
	return o
}

func (o object) str(key string) string {
	s, _ := o[key].(string)
	return s
}

func (n *naive) encode() string {
	subs := []object{}
	for _, s := range n.subagents {
		out := object{}
		for k, v := range s {
			out[k] = v
		}
		if out["blocks"].([]object) == nil {
			out["blocks"] = []object{}
		}
		subs = append(subs, out)
	}
	blocks := n.blocks
	if blocks == nil {
		blocks = []object{}
	}
	data, err := json.Marshal(object{"blocks": blocks, "subagents": subs})
	if err != nil {
		panic(err)
	}
	return string(data)
}

func (n *naive) add(e event.Event) {
	wire := toObject(e)
	payload := object(wire["payload"].(map[string]any))
	context := object(wire["context"].(map[string]any))
	conv := context.str("conversationId")
	if conv == "" {
		conv = "main"
	}
	switch wire.str("type") {
	case "block:upsert":
		n.upsert(conv, context, object(payload["block"].(map[string]any)))
	case "block:delta":
		n.delta(conv, payload.str("blockId"), payload.str("delta"))
	case "subagent:spawned":
		n.spawned(conv, context, payload)
	case "subagent:completed":
		n.completed(payload)
	case "session:idle":
		n.idle(conv)
	}
}

// conversation returns the list of blocks to read or replace, or nil.
func (n *naive) conversation(id string) *[]object {
	if id == "main" {
		return &n.blocks
	}
	if s := n.find(id, id); s != nil {
		blocks := s["blocks"].([]object)
		return &blocks
	}
	return nil
}

func (n *naive) store(id string, blocks []object) {
	if id == "main" {
		n.blocks = blocks
		return
	}
	n.find(id, id)["blocks"] = blocks
}

func (n *naive) find(tool, agent string) object {
	for _, s := range n.subagents {
		if tool != "" && s.str("toolUseId") == tool {
			return s
		}
	}
	for _, s := range n.subagents {
		if agent != "" && s.str("agentId") == agent {
			return s
		}
	}
	return nil
}

func (n *naive) create(tool string) object {
	s := object{"toolUseId": tool, "status": "running", "prompt": "", "blocks": []object(nil)}
	n.subagents = append(n.subagents, s)
	return s
}

func defaults(b object) {
	fill := func(key string, v any) {
		if _, has := b[key]; !has {
			b[key] = v
		}
	}
	switch b.str("type") {
	case "user_message", "assistant_text", "thinking", "skill_load":
		fill("content", "")
	case "tool_use":
		fill("input", map[string]any{})
		fill("executionStatus", "pending")
	case "tool_result":
		fill("output", nil)
		fill("isError", false)
	case "subagent":
		fill("input", "")
		fill("output", nil)
		fill("executionStatus", "pending")
	case "system", "error":
		fill("message", "")
	}
}

func overlay(b, given object) {
	for k, v := range given {
		meta, isMeta := v.(map[string]any)
		if k != "metadata" || !isMeta {
			b[k] = v
			continue
		}
		merged := map[string]any{}
		if old, ok := b[k].(map[string]any); ok {
			for mk, mv := range old {
				merged[mk] = mv
			}
		}
		for mk, mv := range meta {
			merged[mk] = mv
		}
		b[k] = merged
	}
	defaults(b)
}

func (n *naive) upsert(conv string, context, given object) {
	if given["id"] == "" {
		return
	}
	if given.str("source") != "server" {
		delete(given, "source")
	}
	if given["type"] == "" {
		delete(given, "type")
	}
	made := object{}
	overlay(made, given)
	if context.str("source") == "server" {
		made["source"] = "server"
	}
	nothing := given.str("type") == "" || unseen(made)
	if n.merge(conv, given, nothing) || nothing {
		return
	}
	if n.conversation(conv) == nil {
		n.create(conv)
	}
	n.append(conv, context, given)
}

// merge reports whether the block exists and was merged into. A lost block that
// is recreated is appended instead.
func (n *naive) merge(conv string, given object, nothing bool) bool {
	list := n.conversation(conv)
	if list == nil {
		return false
	}
	for i, b := range *list {
		if b["id"] != given["id"] {
			continue
		}
		without := append(append([]object{}, (*list)[:i]...), (*list)[i+1:]...)
		status := given.str("status")
		if marked(b) && !marked(given) && given.str("type") != "" && (status == "pending" || status == "complete") {
			n.store(conv, without)
			return false
		}
		overlay(b, given)
		if nothing && unseen(b) {
			n.store(conv, without)
		}
		return true
	}
	return false
}

func marked(b object) bool {
	meta, _ := b["metadata"].(map[string]any)
	return meta["lost"] == true
}

func unseen(b object) bool {
	texty := b["type"] == "assistant_text" || b["type"] == "thinking"
	parts, _ := b["parts"].([]any)
	message := b["type"] == "user_message" && b.str("content") == "" && len(parts) == 0
	empty := texty && b.str("content") == "" && b.str("summary") == ""
	return marked(b) && b["source"] == "server" && (empty || message)
}

func (n *naive) append(conv string, context, given object) {
	b := object{"status": "pending"}
	if ts := context.str("timestamp"); ts != "" {
		b["timestamp"] = ts
	}
	overlay(b, given)
	if context.str("source") == "server" {
		b["source"] = "server"
	}
	n.store(conv, append(*n.conversation(conv), b))
}

func (n *naive) delta(conv, id, text string) {
	list := n.conversation(conv)
	if list == nil || text == "" {
		return
	}
	for _, b := range *list {
		content, has := b["content"].(string)
		texty := strings.Contains(" user_message assistant_text thinking skill_load ", " "+b.str("type")+" ")
		if b["id"] == id && has && texty {
			b["content"] = content + text
		}
	}
}

func (n *naive) named(p object) object {
	id := p.str("toolUseId")
	if id == "" {
		id = p.str("agentId")
	}
	if id == "" {
		return nil
	}
	s := n.find(id, p.str("agentId"))
	if s == nil {
		s = n.create(id)
	}
	for _, key := range []string{"agentId", "childSessionId"} {
		if s.str(key) == "" && p.str(key) != "" {
			s[key] = p[key]
		}
	}
	return s
}

// standing returns the reference block of s.
func (n *naive) standing(s object) object {
	id := "subagent-block-" + s.str("toolUseId")
	for _, b := range n.blocks {
		if b["id"] == id {
			return b
		}
	}
	for _, sub := range n.subagents {
		for _, b := range sub["blocks"].([]object) {
			if b["id"] == id {
				return b
			}
		}
	}
	return nil
}

func fate(s object) object {
	b := object{"id": "subagent-block-" + s.str("toolUseId"), "type": "subagent", "executionStatus": s["status"]}
	switch s.str("status") {
	case "success":
		b["status"] = "complete"
	case "error":
		b["status"] = "error"
	}
	if s.str("agentId") != "" {
		b["subagentId"] = "agent-" + s.str("agentId")
	}
	for _, key := range []string{"output", "durationMs"} {
		if v, has := s[key]; has {
			b[key] = v
		}
	}
	return b
}

func (n *naive) spawned(conv string, context, p object) {
	s := n.named(p)
	if s == nil {
		return
	}
	if s.str("prompt") == "" {
		s["prompt"] = p.str("prompt")
	}
	ref := fate(s)
	ref["toolUseId"] = s["toolUseId"]
	for from, to := range map[string]string{"subagentType": "name", "description": "description"} {
		if p.str(from) != "" {
			ref[to] = p[from]
		}
	}
	if s.str("prompt") != "" {
		ref["input"] = s["prompt"]
	}
	if b := n.standing(s); b != nil {
		n.complement(b, ref)
		return
	}
	if list := n.conversation(conv); list == nil || (conv != "main" && n.find(conv, conv)["toolUseId"] == s["toolUseId"]) {
		conv = "main"
	}
	n.append(conv, context, ref)
}

func (n *naive) complement(b, ref object) {
	delete(ref, "output")
	delete(ref, "durationMs")
	if x := b.str("executionStatus"); x != "" && x != "pending" {
		delete(ref, "executionStatus")
		delete(ref, "status")
	}
	for _, key := range []string{"toolUseId", "subagentId", "name", "description"} {
		if b.str(key) != "" {
			delete(ref, key)
		}
	}
	if in, has := b["input"]; has && in != "" {
		delete(ref, "input")
	}
	overlay(b, ref)
}

func (n *naive) completed(p object) {
	s := n.named(p)
	if s == nil {
		return
	}
	s["status"] = "error"
	if p.str("status") == "completed" {
		s["status"] = "success"
	}
	for _, key := range []string{"output", "durationMs"} {
		if v, has := p[key]; has {
			s[key] = v
		}
	}
	taken := s["output"] == ""
	if taken {
		delete(s, "output")
	}
	if b := n.standing(s); b != nil {
		overlay(b, fate(s))
		if taken {
			b["output"] = nil
		}
	}
}

func (n *naive) idle(conv string) {
	list := n.conversation(conv)
	if list == nil {
		return
	}
	var kept []object
	for _, b := range *list {
		if b["status"] == "pending" {
			b["status"] = "complete"
		}
		texty := b["type"] == "assistant_text" || b["type"] == "thinking"
		if texty && b.str("content") == "" && b.str("summary") == "" {
			continue
		}
		kept = append(kept, b)
	}
	n.store(conv, kept)
}
