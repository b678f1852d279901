package codex

import (
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
	"github.com/sojourn-run/sojourn/event"
)

// item is one thing in a thread. The app-server, `codex exec --json` and the
// rollout files have the same items with different spelling: camelCase,
// snake_case, and snake_case with the type in CamelCase.
type item struct {
	Type string `json:"type"`
	ID   string `json:"id"`

	StartedMS   int64 `json:"startedAtMs"`
	CompletedMS int64 `json:"completedAtMs"`

	ClientID     string `json:"clientId"`
	ClientIDDisk string `json:"client_id"`

	Text        string         `json:"text"`
	Content     jsontext.Value `json:"content"`
	Summary     []string       `json:"summary"`
	SummaryDisk []string       `json:"summary_text"`
	RawContent  []string       `json:"raw_content"`

	Status      string         `json:"status"`
	Command     jsontext.Value `json:"command"`
	Output      *string        `json:"aggregatedOutput"`
	OutputDisk  *string        `json:"aggregated_output"`
	Process     string         `json:"processId"`
	ProcessDisk string         `json:"process_id"`
	DurationMS  *int64         `json:"durationMs"`
	Duration    *struct {
		Secs  int64 `json:"secs"`
		Nanos int64 `json:"nanos"`
	} `json:"duration"`

	Changes   jsontext.Value `json:"changes"`
	Server    string         `json:"server"`
	Tool      string         `json:"tool"`
	Arguments jsontext.Value `json:"arguments"`
	Result    jsontext.Value `json:"result"`
	Error     jsontext.Value `json:"error"`

	Receivers     []string                  `json:"receiverThreadIds"`
	ReceiversDisk []string                  `json:"receiver_thread_ids"`
	Prompt        string                    `json:"prompt"`
	States        map[string]jsontext.Value `json:"agentsStates"`
	StatesDisk    map[string]jsontext.Value `json:"agents_states"`

	// Of subAgentActivity.
	Activity        string `json:"kind"`
	AgentPath       string `json:"agentPath"`
	AgentPathDisk   string `json:"agent_path"`
	AgentThread     string `json:"agentThreadId"`
	AgentThreadDisk string `json:"agent_thread_id"`

	// Message is that of a warning in `codex exec --json`.
	Message string `json:"message"`
	Review  string `json:"review"`

	raw jsontext.Value
}

// UnmarshalJSON reads any spelling of an item, and keeps its bytes.
func (it *item) UnmarshalJSON(data []byte) error {
	type plain item
	*it = item{}
	if err := json.Unmarshal(data, (*plain)(it), nativejson.AsWritten); err != nil {
		return err
	}
	it.raw = slices.Clone(data)
	return nil
}

// itemKind is the type of an item, in one spelling.
type itemKind string

const (
	kindUser      itemKind = "user_message"
	kindText      itemKind = "agent_message"
	kindPlan      itemKind = "plan"
	kindReasoning itemKind = "reasoning"
	kindCommand   itemKind = "command_execution"
	kindChange    itemKind = "file_change"
	kindMCP       itemKind = "mcp_tool_call"
	kindCollab    itemKind = "collab_agent_tool_call"
	kindActivity  itemKind = "sub_agent_activity"
	kindCompacted itemKind = "context_compaction"
	kindReviewIn  itemKind = "entered_review_mode"
	kindReviewOut itemKind = "exited_review_mode"
	kindError     itemKind = "error"
)

// otherTools are kinds of tools whose items are their own input, by the tools'
// names.
var otherTools = map[itemKind]string{
	"web_search":        "web_search",
	"image_view":        "view_image",
	"image_generation":  "image_generation",
	"dynamic_tool_call": "dynamic_tool",
	"sleep":             "sleep",
}

func (it *item) kind() itemKind {
	kind := itemKind(snake(it.Type))
	if kind == "collab_tool_call" || kind == kindActivity && activityTools[it.Activity] != "" {
		return kindCollab
	}
	return kind
}

// nested reports whether an item is a call made by a script of the model. Such
// calls have the program's ids, and rollouts have only those that ended in time:
// the model itself called the script.
func nested(id string) bool {
	rest, found := strings.CutPrefix(id, "exec-")
	return found && uuid.Validate(rest) == nil
}

// snake returns a name in snake_case.
func snake(name string) string {
	if strings.IndexFunc(name, unicode.IsUpper) < 0 {
		return name
	}
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) {
			if i > 0 {
				b.WriteByte('_')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// blockType returns the type of block that a kind of item becomes; "" for kinds
// that become none, or one that nothing has to wait for.
func (k itemKind) blockType() event.BlockType {
	switch k {
	case kindUser:
		return event.BlockUserMessage
	case kindText, kindPlan:
		return event.BlockAssistantText
	case kindReasoning:
		return event.BlockThinking
	}
	if k.isTool() {
		return event.BlockToolUse
	}
	return ""
}

func (k itemKind) isTool() bool {
	switch k {
	case kindCommand, kindChange, kindMCP, kindCollab:
		return true
	}
	return otherTools[k] != ""
}

// promptID returns the id of the block that a user message becomes: the host's
// own if it gave one.
func (it *item) promptID() string { return first(it.ClientID, it.ClientIDDisk, it.ID) }

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// said returns the text of a message, a plan or a thought.
func (it *item) said() string {
	if it.kind() != kindReasoning {
		if it.Text != "" || len(it.Content) == 0 {
			return it.Text
		}
		return joinParts(it.Content)
	}
	for _, list := range [][]string{it.Summary, it.SummaryDisk, stringsOf(it.Content), it.RawContent} {
		if text := strings.Join(list, "\n"); text != "" {
			return text
		}
	}
	return it.Text
}

func stringsOf(raw jsontext.Value) []string {
	var list []string
	if len(raw) == 0 || decode(raw, &list) != nil {
		return nil
	}
	return list
}

// input is one part of a user's message, in any spelling.
type input struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	URL      string `json:"url"`
	ImageURL string `json:"image_url"`
	Path     string `json:"path"`
	Name     string `json:"name"`
}

func inputsOf(raw jsontext.Value) []input {
	var list []input
	if len(raw) == 0 || decode(raw, &list) != nil {
		return nil
	}
	return list
}

func joinParts(raw jsontext.Value) string { return joinInputs(inputsOf(raw)) }

// joinInputs returns the text of all text parts, one per line.
func joinInputs(inputs []input) string {
	var texts []string
	for _, in := range inputs {
		if snake(in.Type) == "text" {
			texts = append(texts, in.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// richParts returns a message that is more than text, part by part; nil for plain
// text.
func richParts(inputs []input) []event.Part {
	plain := true
	parts := make([]event.Part, 0, len(inputs))
	for _, in := range inputs {
		part := event.Part{Type: snake(in.Type), Text: in.Text}
		switch part.Type {
		case "text":
		case "image":
			part = imagePart(first(in.URL, in.ImageURL))
		case "local_image":
			part = event.Part{Type: "image", URL: in.Path}
		default:
			part.Text = strings.TrimSpace(in.Name + " " + in.Path)
		}
		plain = plain && part.Type == "text"
		parts = append(parts, part)
	}
	if plain {
		return nil
	}
	return parts
}

// imagePart returns an image by its URL, or by the content of a data URL.
func imagePart(url string) event.Part {
	if rest, isData := strings.CutPrefix(url, "data:"); isData {
		if media, data, found := strings.Cut(rest, ";base64,"); found {
			return event.Part{Type: "image", MediaType: media, Data: data}
		}
	}
	return event.Part{Type: "image", URL: url}
}

func (it *item) failed() bool {
	switch snake(it.Status) {
	case "failed", "declined", "error", "errored", "interrupted":
		return true
	}
	return false
}

// declined reports whether the call was refused: it has no result.
func (it *item) declined() bool { return snake(it.Status) == "declined" }

// saved reports whether the rollout has the item: refused calls and commands that
// could not be started are not stored.
func (it *item) saved() bool {
	return !it.declined() && (it.kind() != kindCommand || first(it.Process, it.ProcessDisk) != "")
}

// tookMS returns how long a tool took by the program's figure; nil if it has
// none.
func (it *item) tookMS() *int64 {
	if it.DurationMS != nil && *it.DurationMS >= 0 {
		return it.DurationMS
	}
	if it.Duration == nil || it.Duration.Secs < 0 {
		return nil
	}
	ms := it.Duration.Secs*1000 + it.Duration.Nanos/1_000_000
	return &ms
}

func (it *item) receivers() []string {
	if member := first(it.AgentThread, it.AgentThreadDisk); member != "" {
		return []string{member}
	}
	if len(it.Receivers) > 0 {
		return it.Receivers
	}
	return it.ReceiversDisk
}

func (it *item) states() map[string]jsontext.Value {
	if len(it.States) > 0 {
		return it.States
	}
	return it.StatesDisk
}
