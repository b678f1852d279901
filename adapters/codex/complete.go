package codex

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/lines"
	"github.com/sojourn-run/sojourn/event"
)

// Complete adds the line that the program was killed before it wrote. Of a prompt it writes
// the model's input first and the item, which has the host's id, a millisecond later. In
// between the model has the prompt, and nothing says which one it is.
func (a *Adapter) Complete(home adapters.Home, l adapters.Launch) ([]adapters.Repair, error) {
	if l.NativeID == "" || len(l.Unfinished) == 0 {
		return nil, nil
	}
	found, err := a.Transcripts(home, l)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(found, func(t adapters.Transcript) bool { return t.ID == event.Main })
	if at < 0 {
		return nil, nil
	}
	file := found[at].Path
	last, missing, size, err := lastOf(home, file, l.Unfinished)
	if err != nil {
		return nil, err
	}
	item := last.itemOf(l.NativeID, missing)
	if item == nil {
		return nil, nil
	}
	return []adapters.Repair{{Path: file, From: file, End: size, Add: item}}, nil
}

// modelInput is a line with an input of the model.
type modelInput struct {
	Timestamp string `json:"timestamp"`
	// Ordinal numbers the lines of a file.
	Ordinal *int64 `json:"ordinal"`
	Type    string `json:"type"`
	Payload struct {
		Type    string         `json:"type"`
		ID      string         `json:"id"`
		Content jsontext.Value `json:"content"`
		About   struct {
			TurnID string `json:"turn_id"`
			// Kinds are what the parts of the content are: user.text, or something that the
			// program itself adds.
			Kinds []string `json:"content_item_kinds"`
		} `json:"internal_chat_message_metadata_passthrough"`
	} `json:"payload"`
}

// lastOf returns the last line, those prompts whose items the file does not have, and the
// file's size in bytes.
func lastOf(home adapters.Home, file string, prompts []adapters.Unfinished) (last modelInput, missing []adapters.Unfinished, size int64, err error) {
	in, err := lines.OpenAt(Name, home, file, lines.Mark{})
	if err != nil {
		return last, nil, 0, err
	}
	defer in.Close()
	missing = slices.Clone(prompts)
	var line []byte
	err = in.Followed(func(raw []byte) {
		line = append(line[:0], raw...)
		if id := itemOfUser(raw); id != "" {
			missing = slices.DeleteFunc(missing, func(p adapters.Unfinished) bool { return p.ID == id })
		}
	})
	if err == nil && decodeObject(line, &last) != nil {
		last = modelInput{} // whatever it is, it is no prompt
	}
	return last, missing, in.Size(), err
}

// itemOfUser returns the host's id of the prompt whose item a line has; "" for other lines.
func itemOfUser(raw []byte) string {
	if !bytes.Contains(raw, []byte(`"`+userItem+`"`)) {
		return ""
	}
	var l rolloutLine
	var p payload
	if decodeObject(raw, &l) != nil || l.Type != lineEvent || decodeObject(l.Payload, &p) != nil || p.Item == nil || p.Item.kind() != kindUser {
		return ""
	}
	return p.Item.promptID()
}

// userItem is the type of a prompt's item in a rollout.
const userItem = "UserMessage"

// itemOf returns the line that follows this one, with the id of the first of the prompts
// that it can be; nil if it is none.
func (m *modelInput) itemOf(thread string, prompts []adapters.Unfinished) []byte {
	content, text := m.asked()
	at := slices.IndexFunc(prompts, func(p adapters.Unfinished) bool { return strings.HasPrefix(text, p.Begins) })
	taken, err := time.Parse(time.RFC3339Nano, m.Timestamp)
	if content == nil || at < 0 || err != nil {
		return nil
	}
	line := map[string]any{
		"timestamp": m.Timestamp, "type": lineEvent,
		"payload": map[string]any{
			"type": "item_completed", "thread_id": thread, "turn_id": m.Payload.About.TurnID,
			"item": map[string]any{
				"type": userItem, "id": uuid.NewSHA1(uuid.NameSpaceOID, []byte(m.Payload.ID)).String(),
				"client_id": prompts[at].ID, "content": content,
			},
			"started_at_ms": taken.UnixMilli(), "completed_at_ms": taken.UnixMilli(),
		},
	}
	if m.Ordinal != nil {
		line["ordinal"] = *m.Ordinal + 1
	}
	return append(object(line), '\n')
}

// asked returns the content of a prompt as its item has it, and its text; nil for an input
// that is no prompt of the host.
func (m *modelInput) asked() (content []any, text string) {
	inputs, kinds := inputsOf(m.Payload.Content), m.Payload.About.Kinds
	if m.Type != lineItem || m.Payload.Type != "message" || len(inputs) != len(kinds) {
		return nil, ""
	}
	var texts []string
	for i, in := range inputs {
		switch kinds[i] {
		case "user.text":
			texts = append(texts, in.Text)
			content = append(content, map[string]any{"type": "text", "text": in.Text, "text_elements": []any{}})
		case "user.image":
			content = append(content, map[string]any{"type": "image", "image_url": in.ImageURL})
		default:
			return nil, ""
		}
	}
	return content, strings.Join(texts, "\n")
}
