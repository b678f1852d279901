package acp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
)

// Encode returns what is written to the agent for an input.
func (t *Translator) Encode(id string, in adapters.Input) ([]adapters.Message, error) {
	m, err := t.encodeInput(id, in)
	if err != nil || m == nil {
		return nil, err
	}
	return []adapters.Message{*m}, nil
}

func (t *Translator) encodeInput(id string, in adapters.Input) (*adapters.Message, error) {
	switch in := in.(type) {
	case adapters.Initialize:
		// Files and terminals are the agent's own: it runs in the sandbox.
		m := t.request(id, "initialize", map[string]any{
			"protocolVersion": 1, "clientCapabilities": map[string]any{
				"fs": map[string]bool{"readTextFile": false, "writeTextFile": false}, "terminal": false,
			}})
		return &m, nil
	case adapters.Answer:
		return t.encodeAnswer(id, in)
	case adapters.Interrupt:
		return t.encodeInterrupt(id)
	}
	if err := t.open(); err != nil {
		return nil, err
	}
	switch in := in.(type) {
	case adapters.Prompt:
		return t.encodePrompt(id, in)
	case adapters.SetModel:
		m := t.setModel(id, in.Model)
		return &m, nil
	case adapters.SetPermission:
		if t.dialect.Modes == nil {
			return nil, nil
		}
		mode := t.dialect.mode(in.Permission)
		if mode == "" {
			return nil, fmt.Errorf("%s: permission %q: %w", t.dialect.Agent, in.Permission, adapters.ErrUnsupported)
		}
		m := t.request(id, "session/set_mode", map[string]any{"sessionId": t.state.Session, "modeId": mode})
		return &m, nil
	}
	return nil, fmt.Errorf("%s: encode %T: %w", t.dialect.Agent, in, adapters.ErrUnsupported)
}

// setModel requests a model, in the way that the agent supports.
func (t *Translator) setModel(id, name string) adapters.Message {
	if t.ModelOption == "" {
		return t.request(id, "session/set_model", map[string]any{"sessionId": t.state.Session, "modelId": name})
	}
	return t.request(id, "session/set_config_option", map[string]any{
		"sessionId": t.state.Session, "configId": t.ModelOption, "value": name,
	})
}

// open returns an error unless there is a session that takes prompts.
func (t *Translator) open() error {
	switch t.Phase {
	case ready:
		return nil
	case refused:
		return fmt.Errorf("%s: %s: %w", t.dialect.Agent, t.Refusal, adapters.ErrRefused)
	}
	return fmt.Errorf("%s: %w", t.dialect.Agent, adapters.ErrNotYet)
}

// encodePrompt passes on a message. A second one would cancel the first, so it
// waits, and steering is not supported.
func (t *Translator) encodePrompt(id string, in adapters.Prompt) (*adapters.Message, error) {
	if in.Steer {
		return nil, fmt.Errorf("%s: a message into a running turn: %w", t.dialect.Agent, adapters.ErrUnsupported)
	}
	if len(t.Turns) > 0 {
		return nil, fmt.Errorf("%s: a turn runs: %w", t.dialect.Agent, adapters.ErrNotYet)
	}
	var content []Content
	if in.Text != "" || len(in.Parts) == 0 {
		content = append(content, Content{Type: "text", Text: in.Text})
	}
	for i, p := range in.Parts {
		switch {
		case p.Type == "text":
			content = append(content, Content{Type: "text", Text: p.Text})
		case p.Type == "image" && p.Data != "" && (t.Can == nil || t.Can.Images):
			content = append(content, Content{Type: "image", MimeType: p.MediaType, Data: p.Data})
		default:
			return nil, fmt.Errorf("%s: prompt part %d of type %q, without data or not taken: %w", t.dialect.Agent, i, p.Type, adapters.ErrUnsupported)
		}
	}
	m := t.request(id, "session/prompt", map[string]any{"sessionId": t.state.Session, "prompt": content})
	return &m, nil
}

// encodeInterrupt cancels the running turn. The answers to its permission
// requests, without which it would not end, are returned by Due.
func (t *Translator) encodeInterrupt(id string) (*adapters.Message, error) {
	if len(t.Turns) == 0 {
		return nil, nil
	}
	return &adapters.Message{ID: id, Data: nativejson.Encode(map[string]any{
		"jsonrpc": "2.0", "method": "session/cancel", "params": map[string]any{"sessionId": t.state.Session},
	})}, nil
}

// encodeAnswer picks one of the options that the agent offered, see [answersIn]: what
// can't be allowed is rejected, and what can't be rejected cancelled. It has no
// field for a text.
func (t *Translator) encodeAnswer(id string, in adapters.Answer) (*adapters.Message, error) {
	a, pending := t.Asks[in.RequestID]
	if !pending {
		return nil, nil // answered already, or not waited for any more
	}
	option := a.Reject
	if in.Allow && a.Allow != "" {
		option = a.Allow
	}
	outcome := map[string]any{"outcome": "selected", "optionId": option}
	if option == "" {
		outcome = map[string]any{"outcome": "cancelled"}
	}
	m := t.reply(id, a.ID, map[string]any{"outcome": outcome}, nil)
	return &m, nil
}

// request returns a request whose JSON-RPC id is that of the message.
func (t *Translator) request(id, method string, params any) adapters.Message {
	return adapters.Message{ID: id, Data: nativejson.Encode(map[string]any{
		"jsonrpc": "2.0", "id": id, "method": method, "params": params,
	})}
}

// reply answers a request of the agent.
func (t *Translator) reply(id string, to json.RawMessage, result any, f *fault) adapters.Message {
	body := map[string]any{"jsonrpc": "2.0", "id": to}
	if f != nil {
		body["error"] = f
	} else {
		body["result"] = result
	}
	return adapters.Message{ID: id, Data: nativejson.Encode(body)}
}

// IsLine reports whether a line is one of the protocol; other lines of an agent
// on the same stream are not for this package.
func IsLine(line string) bool { return strings.Contains(line, `"jsonrpc"`) }
