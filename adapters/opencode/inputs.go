package opencode

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// maxRetries is how often the agent may retry the model's API after a failure
// that it considers transient. By itself it never stops, with pauses of 2, 4, 8,
// 16 and then 30 seconds: four are half a minute, in which most overloads pass.
// The caller decides better than the agent whether more are worth it.
const maxRetries = 4

// requestLine is a request in the runner's form.
type requestLine struct {
	ID     string `json:"id"`
	Method string `json:"method"`
	Path   string `json:"path"`
	Body   any    `json:"body,omitempty"`
}

func request(id, method, path string, body any) ([]adapters.Message, error) {
	data, err := nativejson.Marshal(requestLine{id, method, path, body})
	if err != nil {
		return nil, fmt.Errorf("opencode: encode request %s: %w", id, err)
	}
	return []adapters.Message{{ID: id, Data: data}}, nil
}

// Encode returns the request for an input.
func (t *translator) Encode(id string, in adapters.Input) ([]adapters.Message, error) {
	switch in := in.(type) {
	case adapters.Initialize:
		return t.encodeOpening(id)
	case adapters.SetPermission:
		if err := t.canAsk(in.Permission); err != nil {
			return nil, err
		}
	}
	switch {
	case t.Opening.Refused != "":
		return nil, fmt.Errorf("opencode: %w: %s", adapters.ErrRefused, t.Opening.Refused)
	case !t.Opening.Done:
		return nil, fmt.Errorf("opencode: the session is not open: %w", adapters.ErrNotYet)
	}
	switch in := in.(type) {
	case adapters.Prompt:
		return t.encodePrompt(id, in)
	case adapters.Interrupt:
		return request(id, "POST", "/session/"+t.Main+"/abort", nil)
	case adapters.SetModel:
		// Every prompt names its model.
		_, err := modelRef(in.Model)
		return nil, err
	case adapters.SetPermission:
		return t.encodePermission(id, in.Permission)
	case adapters.Answer:
		return t.encodeAnswer(id, in)
	}
	return nil, fmt.Errorf("opencode: encode %T: %w", in, adapters.ErrUnsupported)
}

// Due returns the aborts that the adapter itself requests.
func (t *translator) Due() []adapters.Message {
	due := t.due
	t.due = nil
	return due
}

// abort ends the turn.
func (t *translator) abort(id string) {
	m, err := request(id, "POST", "/session/"+t.Main+"/abort", nil)
	if err == nil { // texts can be encoded
		t.due = append(t.due, m...)
	}
}

// gaveUp is the prefix of the id of the abort that ends a turn whose retries
// don't end.
const gaveUp = "give-up-"

// again is the prefix of the id of the abort that repeats one that came too early.
const again = "abort-"

// giveUp ends a turn whose model can't be reached.
func (t *translator) giveUp(th *thread) {
	at := t.Main
	if n := len(th.Messages); n > 0 {
		at = th.Messages[n-1].ID
	}
	t.abort(gaveUp + at)
}

// plainID are the message ids that can be part of a part's id.
var plainID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,200}$`)

// BlockID returns the id of a message's block: the message's own, or one derived
// from it if the agent would refuse that.
func BlockID(messageID string) string {
	if plainID.MatchString(messageID) {
		return messageID
	}
	return uuid.NewSHA1(namespace, []byte("message/"+messageID)).String()
}

type promptBody struct {
	Parts  []any  `json:"parts"`
	Model  any    `json:"model,omitempty"`
	System string `json:"system,omitempty"`
}

func (t *translator) encodePrompt(id string, in adapters.Prompt) ([]adapters.Message, error) {
	b := promptBody{System: t.launch.SystemPrompt}
	if in.Text != "" || len(in.Parts) == 0 {
		b.Parts = append(b.Parts, map[string]any{"type": "text", "text": in.Text})
	}
	for i, p := range in.Parts {
		part, err := encodePart(p)
		if err != nil {
			return nil, fmt.Errorf("opencode: prompt part %d: %w", i, err)
		}
		b.Parts = append(b.Parts, part)
	}
	if in.MessageID != "" {
		prefix := ofPrompt
		if in.Steer {
			prefix = ofSteered
		}
		b.Parts[0].(map[string]any)["id"] = prefix + BlockID(in.MessageID)
		for i, p := range b.Parts[1:] {
			p.(map[string]any)["id"] = fmt.Sprintf("%s%s_%04d", prefix, BlockID(in.MessageID), i+1)
		}
	}
	model := in.Model
	if model == "" {
		model = t.launch.Model
	}
	if model != "" {
		ref, err := modelRef(model)
		if err != nil {
			return nil, err
		}
		b.Model = ref
	}
	return request(id, "POST", "/session/"+t.Main+"/prompt_async", b)
}

func encodePart(p event.Part) (map[string]any, error) {
	switch {
	case p.Type == "text":
		return map[string]any{"type": "text", "text": p.Text}, nil
	case p.Type == "image" && p.Data != "":
		return map[string]any{"type": "file", "mime": p.MediaType, "url": "data:" + p.MediaType + ";base64," + p.Data}, nil
	case p.Type == "image" && p.URL != "":
		return map[string]any{"type": "file", "mime": p.MediaType, "url": p.URL}, nil
	}
	return nil, fmt.Errorf("type %q: %w", p.Type, adapters.ErrUnsupported)
}

// modelRef reads "provider/model".
func modelRef(name string) (map[string]string, error) {
	provider, model, found := strings.Cut(name, "/")
	if !found || provider == "" || model == "" {
		return nil, fmt.Errorf("opencode: model %q: want PROVIDER/MODEL, such as anthropic/claude-sonnet-4-5: %w", name, adapters.ErrUnsupported)
	}
	return map[string]string{"providerID": provider, "modelID": model}, nil
}

func (t *translator) encodeAnswer(id string, in adapters.Answer) ([]adapters.Message, error) {
	message := in.Message
	if message == "" {
		message = "The user refused."
	}
	if a := t.Asks[in.RequestID]; a != nil && a.Question || strings.HasPrefix(in.RequestID, "que") {
		return t.encodeReply(id, in, message)
	}
	body := map[string]any{"reply": "once"}
	if !in.Allow {
		body = map[string]any{"reply": "reject", "message": message}
	}
	return request(id, "POST", "/permission/"+in.RequestID+"/reply", body)
}

// refusal marks a request as a refusal, for readers of the records: what follows
// the mark is not sent to a server.
const refusal = "#refusal"

// encodeReply answers a question. A refusal is an answer too: the agent's own way
// to refuse ends the turn, and the model does not learn of it.
func (t *translator) encodeReply(id string, in adapters.Answer, message string) ([]adapters.Message, error) {
	n := 1
	if a := t.Asks[in.RequestID]; a != nil {
		n = max(a.Questions, 1)
	}
	answers, path := answersOf(in.Input), "/question/"+in.RequestID+"/reply"
	if !in.Allow {
		answers, path = [][]string{}, path+refusal
		for range n {
			answers = append(answers, []string{message})
		}
	}
	for len(answers) < n {
		answers = append(answers, []string{})
	}
	return request(id, "POST", path, map[string]any{"answers": answers})
}

// answersOf parses the answers in the forms that people use: by the order of the
// questions, alone or below "answers", each one label or several; or by the
// question's text, as other agents take them.
func answersOf(input json.RawMessage) [][]string {
	var wrapped struct {
		Questions []struct {
			Question string `json:"question"`
		} `json:"questions"`
		Answers json.RawMessage `json:"answers"`
	}
	list := input
	if json.Unmarshal(input, &wrapped) == nil && len(wrapped.Answers) > 0 {
		list = wrapped.Answers
	}
	answers := [][]string{}
	var raws []json.RawMessage
	if json.Unmarshal(list, &raws) == nil {
		for _, r := range raws {
			answers = append(answers, labels(r))
		}
		return answers
	}
	var byText map[string]json.RawMessage
	if json.Unmarshal(wrapped.Answers, &byText) == nil {
		for _, q := range wrapped.Questions {
			answers = append(answers, labels(byText[q.Question]))
		}
	}
	return answers
}

func labels(raw json.RawMessage) []string {
	var many []string
	if json.Unmarshal(raw, &many) == nil && many != nil {
		return many
	}
	if one := nativejson.String(raw); one != "" {
		return []string{one}
	}
	return []string{}
}
