package opencode

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/test/replay"
)

func TestStories(t *testing.T) { recorded.Stories(t) }

func TestSplitAnywhere(t *testing.T) { recorded.SplitAnywhere(t) }

func TestSplitOnce(t *testing.T) { recorded.SplitOnce(t) }

func TestSameRecordsSameEvents(t *testing.T) { recorded.SameRecordsSameEvents(t) }

func TestUnknownAnywhere(t *testing.T) { recorded.UnknownAnywhere(t) }

func TestCutAnywhere(t *testing.T) { recorded.CutAnywhere(t) }

// The requests are well-formed too.
func TestNothingMalformed(t *testing.T) {
	all := recorded
	all.Runs = func(t testing.TB) []replay.Run {
		var out []replay.Run
		for _, r := range runs(t) {
			for _, name := range []string{"http.jsonl", "timed.jsonl"} {
				if file := r.file.Path(name); replay.Exists(file) {
					r.Records = append(r.Records, replay.ReadRecords(t, file)...)
				}
			}
			out = append(out, r.Run)
		}
		return out
	}
	all.NothingMalformed(t)
}

// The state keeps nothing of a finished turn but the little that late events
// need: its size does not grow with the conversation.
func TestStateDoesNotGrow(t *testing.T) {
	recorded.StateDoesNotGrow(t, conversationOf, 300, 1500, 200)
}

func FuzzTranslate(f *testing.F) {
	f.Add([]byte(`{"type":"message.updated","properties":{"sessionID":"s","info":{"id":"m","role":"assistant"}}}` + "\n" +
		`{"type":"message.part.updated","properties":{"sessionID":"s","part":{"id":"p","messageID":"m","type":"text","text":""}}}` + "\n" +
		`{"type":"message.part.delta","properties":{"sessionID":"s","partID":"p","field":"text","delta":"x"}}` + "\nexit\n"))
	f.Add([]byte(`{"type":"message.part.updated","properties":{"part":{"id":"p","messageID":"m","sessionID":"s","type":"tool","tool":"task","callID":"c","state":{"status":"running","input":{},"metadata":{"sessionId":"k"}}}}}` +
		"\n{\"type\":\"session.idle\",\"properties\":{\"sessionID\":\"k\"}}"))
	f.Add([]byte(`{"type":"tool_use","sessionID":"s","part":{"type":"tool","id":"p"}}` + "\n{\"type\":\"step_finish\",\"part\":{\"type\":\"step-finish\"}}"))
	f.Add([]byte(`{"id":"r","method":"POST","path":"/session/s/prompt_async","body":{}}` + "\n" + `{"type":"sojourn.response","id":"r","error":"x"}`))
	f.Add([]byte("{}\nnull\n[]\n\"\"\n{\"type\":7}\nevents again\nevents lost"))
	f.Fuzz(recorded.FuzzRecords)
}

func FuzzParse(f *testing.F) {
	f.Add(`{"table":"part","rowid":1,"row":{"id":"p","message_id":"m","session_id":"s","data":"{\"type\":\"text\",\"text\":\"x\"}"}}` + "\n")
	f.Add(`{"info":{"id":"s"},"messages":[{"info":{"id":"m","role":"user"},"parts":[{"type":"tool"}]}]}`)
	// A tool may write a log into the database that has a part in another form than its row.
	f.Add(`{"table":"session","rowid":1,"row":{"id":"s","parent_id":null}}
{"table":"message","rowid":1,"row":{"id":"m","session_id":"s","data":"{\"role\":\"assistant\"}"}}
{"table":"part","rowid":1,"row":{"id":"p","message_id":"m","session_id":"s","time_created":1,"data":"{\"type\":\"text\",\"text\":\"x\"}"}}
{"table":"event","rowid":1,"row":{"aggregate_id":"s","type":"message.part.updated.1","data":"{\"part\":{\"id\":\"p\",\"state\":{\"status\":\"running\"}}}"}}
{"table":"event","rowid":2,"row":{"aggregate_id":"s","type":"message.part.updated.1","data":"{\"part\":{\"id\":\"p\",\"state\":{\"status\":\"completed\"}}}"}}
`)
	f.Add("SQLite format 3\x00")
	f.Add("[]\n{")
	f.Fuzz(func(t *testing.T, text string) { recorded.FuzzSources(t, memory("x", text)) })
}

func TestForkAnywhere(t *testing.T) {
	exported := recorded
	exported.Transcripts = func(t testing.TB) []replay.Transcript {
		all := []replay.Transcript{{Name: "killed", Sources: []adapters.Source{exportedAs("killed", replay.ReadFile(t, killedExport))}}}
		all = append(all, replay.Transcript{Name: "long", Sources: []adapters.Source{exportedAs("long", exportOf(1<<18))}})
		for _, r := range runs(t) {
			if dir := r.file.Path("transcripts"); replay.Exists(dir) {
				home, err := adapters.OpenHome(dir)
				require.NoError(t, err)
				lines, _ := export(t, home, nil)
				all = append(all, replay.Transcript{Name: r.Name, Sources: []adapters.Source{exportedAs(r.Name, lines)}})
			}
		}
		return all
	}
	exported.ForkAnywhere(t, 25)
}

// exportedAs returns lines as they are archived.
func exportedAs(name, lines string) adapters.Source {
	return replay.Memory(adapters.Transcript{ID: event.Main, Path: name, Kind: adapters.Append}, lines)
}
