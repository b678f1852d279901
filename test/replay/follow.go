package replay

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// Home is a home in memory that counts the bytes read from it. Not safe for concurrent
// use.
type Home struct {
	Files map[string]string
	// Read is the number of bytes read.
	Read int64
}

// Glob returns the matching paths, sorted.
func (h *Home) Glob(pattern string) ([]string, error) {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(h.Files)) {
		ok, err := path.Match(pattern, name)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, name)
		}
	}
	return found, nil
}

// Open opens a file.
func (h *Home) Open(name string) (io.ReadCloser, error) { return h.OpenAt(name, 0) }

// OpenAt opens a file at a byte offset.
func (h *Home) OpenAt(name string, offset int64) (io.ReadCloser, error) {
	text, ok := h.Files[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return io.NopCloser(&counted{strings.NewReader(text[min(int(offset), len(text)):]), &h.Read}), nil
}

type counted struct {
	*strings.Reader
	n *int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	*c.n += int64(n)
	return n, err
}

// cursorBytes bounds the size of a follower's cursor.
const cursorBytes = 64 << 10

// Followed checks that following a transcript while it grows produces the same blocks
// of the main conversation, with the same ids, as parsing the whole, whatever the
// pieces in which it grows.
func Followed(t testing.TB, a adapters.Adapter, l adapters.Launch, name, text string) {
	t.Helper()
	text = text[:strings.LastIndexByte(text, '\n')+1] // a line without its newline is not followed
	want := texts(func(take func(event.Event)) {
		src := Memory(adapters.Transcript{ID: event.Main, Path: name, Kind: adapters.Append}, text)
		for ev, err := range a.Parse([]adapters.Source{src}) {
			if err == nil {
				take(ev)
			}
		}
	})
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, 1))
		h := &Home{Files: map[string]string{}}
		var since json.RawMessage
		got := texts(func(take func(event.Event)) {
			for end := 0; ; {
				h.Files[name] = text[:end]
				var err error
				since, err = a.(adapters.Follower).Follow(h, l, since, take)
				require.NoError(t, err)
				require.Less(t, len(since), cursorBytes)
				if end == len(text) {
					return
				}
				end = min(len(text), end+1+random.IntN(1+len(text)/(1+random.IntN(40))))
			}
		})
		for _, id := range slices.Sorted(maps.Keys(want)) {
			require.Equal(t, want[id], got[id], "seed %d: block %s of %v", seed, id, slices.Sorted(maps.Keys(got)))
		}
	}
}

// texts returns what a turn may wait for: the texts and results of the main
// conversation, in their last version.
func texts(tell func(take func(event.Event))) map[string]string {
	found := map[string]string{}
	tell(func(ev event.Event) {
		p, ok := ev.Payload.(event.BlockUpsert)
		if !ok || ev.Context.Conversation() != event.Main {
			return
		}
		switch {
		case p.Block.Type == event.BlockAssistantText && p.Block.Content != nil:
			found[p.Block.ID] = *p.Block.Content
		case p.Block.Type == event.BlockToolResult:
			found[p.Block.ID] = string(p.Block.Output)
		}
	})
	return found
}
