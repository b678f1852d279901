package fork

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/workspace"
)

// Original is the session that is forked.
type Original struct {
	ID string
	// Native is the agent's id of it, if Sojourn chooses those; the copy has another in its
	// place, since two sessions of an agent never have one id. Default: the agent's stays.
	Native string
	// At are the ids that the last block of the main conversation to copy may have. Default: the
	// whole conversation.
	At []string
}

// Copy is the session into which it is copied.
type Copy struct {
	ID, Native string
	// Epoch is the one that the writer holds.
	Epoch uint64
}

// Write copies transcripts, server entries and files into a session that has none, and returns the
// blocks that the copy has. Errors: [ErrNoPoint], [adapters.ErrUnsupported], [archive.ErrCorrupt], or
// what can't be read or written.
func Write(ctx context.Context, a *archive.Archive, agent adapters.Adapter, from Original, to Copy) (Kept, error) {
	// The entries first: a turn that ends meanwhile archives its transcripts before its entries, which
	// are anchored to them.
	own, err := a.ServerEntries(ctx, from.ID)
	if err != nil {
		return Kept{}, err
	}
	sources, err := frozen(ctx, a, from.ID)
	if err != nil {
		return Kept{}, err
	}
	kept, err := Point(archive.Merge(agent.Parse(sources), own), from.At...)
	if err != nil {
		return Kept{}, err
	}
	cut, err := Cut(agent, sources, kept)
	if err != nil {
		return Kept{}, err
	}
	for _, s := range cut {
		if err := transcript(ctx, a, s, from, to); err != nil {
			return Kept{}, fmt.Errorf("transcript %s: %w", s.Path, err)
		}
	}
	if err := a.AppendServerEntries(ctx, to.ID, to.Epoch, entries(own, kept, from, to)...); err != nil {
		return Kept{}, err
	}
	return kept, files(ctx, a, from.ID, to)
}

// frozen returns the transcripts as they are now: a session that runs may write more of them while
// they are copied.
func frozen(ctx context.Context, a *archive.Archive, id string) ([]adapters.Source, error) {
	infos, err := a.Transcripts(ctx, id)
	if err != nil {
		return nil, err
	}
	var sources []adapters.Source
	for _, info := range infos {
		s := adapters.Source{Transcript: info.Transcript, Open: func() (io.ReadCloser, error) { return a.ReadTranscript(ctx, id, info.ID) }}
		if info.Kind == adapters.Append {
			s = beginning([]adapters.Source{s}, []end{{0, info.Size}})[0]
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// piece is how much of a transcript is written at once, in bytes.
const piece = 4 << 20

// transcript writes one transcript, under the agent's new id.
func transcript(ctx context.Context, a *archive.Archive, s adapters.Source, from Original, to Copy) (err error) {
	in, err := s.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	t := s.Transcript
	rename := func(text string) string { return text }
	if from.Native != "" && to.Native != "" {
		rename = strings.NewReplacer(from.Native, to.Native).Replace
	}
	t.Path = rename(t.Path)
	if t.Kind == adapters.Snapshot {
		data, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		_, err = a.PutSnapshot(ctx, to.ID, to.Epoch, t, []byte(rename(string(data))))
		return err
	}
	lines, at := bufio.NewReaderSize(in, 1<<16), int64(0)
	var pending bytes.Buffer
	for {
		line, err := lines.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		pending.WriteString(rename(line))
		if ended := err != nil; pending.Len() < piece && !ended {
			continue
		}
		if _, werr := a.AppendTranscript(ctx, to.ID, to.Epoch, t, at, pending.Bytes()); werr != nil || err != nil {
			return werr
		}
		at += int64(pending.Len())
		pending.Reset()
	}
}

// entries returns the server entries of what is kept, as those of the copy. Their ids are made of the
// numbers of the original's events, which the copy's own events will have too.
func entries(own []archive.ServerEntry, k Kept, from Original, to Copy) []archive.ServerEntry {
	var out []archive.ServerEntry
	for _, e := range own {
		if !k.Whole && !keeps(k, e) {
			continue
		}
		e.ID = "fork-" + from.ID + "-" + e.ID
		e.Event.Context.SessionID = to.ID
		out = append(out, e)
	}
	return out
}

// keeps reports whether an entry is part of what is kept: what it is about, and what it is behind.
func keeps(k Kept, e archive.ServerEntry) bool {
	behind := event.Context{ConversationID: e.Anchor.ConversationID}.Conversation()
	if !k.has(behind, e.Anchor.AfterBlockID) {
		return false
	}
	switch p := e.Event.Payload.(type) {
	case event.BlockUpsert:
		return k.has(e.Event.Context.Conversation(), p.Block.ID)
	case event.BlockPlaced:
		return k.has(e.Event.Context.Conversation(), p.BlockID)
	case event.SubagentSpawned:
		return k.Threads[cmp.Or(p.ToolUseID, p.AgentID)]
	case event.SubagentCompleted:
		return k.Threads[cmp.Or(p.ToolUseID, p.AgentID)]
	}
	return true
}

// files copies the archived workspace. What the archive can't restore is not copied.
func files(ctx context.Context, a *archive.Archive, from string, to Copy) error {
	old, err := workspace.Open(ctx, a, from, 0)
	if err != nil || !old.Known() {
		return err
	}
	w, err := workspace.Open(ctx, a, to.ID, to.Epoch)
	if err != nil {
		return err
	}
	return w.Copy(ctx, old)
}
