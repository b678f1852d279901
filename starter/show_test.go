package starter

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// Older clients request the names that they know: block_start, text_delta,
// block_update, block_complete and metadata_update, or
// session:block:start/delta/update/complete.
func TestR62TailNames(t *testing.T) {
	t.Parallel()
	story := []event.Payload{
		event.BlockUpsert{Block: event.Block{ID: "b", Type: event.BlockAssistantText, Status: event.StatusPending}},
		event.BlockDelta{BlockID: "b", Delta: "hi"},
		event.BlockUpsert{Block: event.Block{ID: "b", Type: event.BlockAssistantText, Model: "m"}},
		event.BlockUpsert{Block: event.Block{ID: "b", Type: event.BlockAssistantText, Status: event.StatusComplete, Content: new("hi")}},
		event.MetadataUpdate{Model: "m"},
	}
	for names, want := range map[string][]string{
		"":   {"block:upsert", "block:delta", "block:upsert", "block:upsert", "metadata:update"},
		"v1": {"block_start", "text_delta", "block_update", "block_complete", "metadata_update"},
		"v2": {"session:block:start", "session:block:delta", "session:block:update", "session:block:complete", "metadata:update"},
	} {
		var out bytes.Buffer
		show, flush, err := (&cli{stdout: &out, json: true}).showerNamed(names)
		require.NoError(t, err)
		for i, p := range story {
			require.NoError(t, show(event.Event{Payload: p, Context: event.Context{Seq: uint64(i + 1)}}))
		}
		require.NoError(t, flush())
		require.Equal(t, want, wireNames(t, &out), names)
	}
}

// Clients that know the names of the second older system are told of sessions and files by them.
func TestR130TailNames(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	show, flush, err := (&cli{stdout: &out, json: true}).showerNamed("v2")
	require.NoError(t, err)
	for _, p := range []event.Payload{
		event.SessionInitialized{Agent: "claude"},
		event.Status{Runtime: &event.Runtime{IsLoaded: true}},
		event.FileCreated{File: event.File{Path: "a"}},
		event.SessionClosed{Reason: "closed"},
	} {
		require.NoError(t, show(event.Event{Payload: p, Context: event.Context{SessionID: "s1", Seq: 1}}))
	}
	require.NoError(t, flush())
	var names []string
	for lines := bufio.NewScanner(&out); lines.Scan(); {
		var e struct{ Type string }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		names = append(names, e.Type)
	}
	require.Equal(t, []string{"session:created", "sessions:changed", "session:status", "session:file:modified", "session:closed", "sessions:changed"}, names)
}

// wireNames returns the types of the printed events, whose numbers must be dense.
func wireNames(t *testing.T, out *bytes.Buffer) []string {
	t.Helper()
	var names []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var e struct {
			Type    string
			Payload map[string]any
			Context struct{ Seq int }
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		require.NotEmpty(t, e.Payload)
		names = append(names, e.Type)
		require.Equal(t, len(names), e.Context.Seq)
	}
	return names
}

// What tail and show print to a pipe is whole, however long its lines are: a pipe has no
// width.
func TestNoLineIsCutOnAPipe(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	use := event.Block{ID: "b", Type: event.BlockToolUse, Status: event.StatusComplete, ToolUseID: "u", ToolName: "Bash", Input: json.RawMessage(`{"command":"` + long + `"}`)}
	for name, print := range map[string]func(*cli) error{
		"tail": func(c *cli) error {
			show, flush, err := c.showerNamed("")
			return errors.Join(err, show(event.Event{Payload: event.BlockUpsert{Block: use}}), flush())
		},
		"show": func(c *cli) error {
			return c.printConversation(session.Conversation{State: reducer.State{Blocks: []event.Block{use}}})
		},
	} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, print(&cli{stdout: w}), name)
		require.NoError(t, w.Close())
		out, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.Contains(t, string(out), long+"\n", name)
	}
}

// A number that the session has not reached is reported with the one that it has.
func TestTailBehindTheLastEvent(t *testing.T) {
	t.Parallel()
	require.NoError(t, behindLast("s1", 0, 0))
	require.NoError(t, behindLast("s1", 7, 7))
	f := explain(behindLast("s1", 8, 7))
	require.Equal(t, "--after 8: the last event of session s1 is 7", f.line)
	require.Contains(t, f.hint, "--after 7 --follow")
	require.Equal(t, exitFailed, f.code)

	gap := explain(&stream.GapError{SessionID: "s1", Want: 9})
	require.Contains(t, gap.hint, "sojourn show ID", "no part is broken that the doctor could find")
}

// An event of a tree is the same JSON as that of one session.
func TestEventsOfATreeAreNotEscaped(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := &cli{stdout: &out}
	text := "a < b && c > d"
	require.NoError(t, c.newTreeShower(nil).show(event.Event{Payload: event.BlockUpsert{Block: event.Block{ID: "b1", Content: &text}}}))
	require.Contains(t, out.String(), text)
}
