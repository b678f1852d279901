package gemini

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/adapters/internal/lines"
	"github.com/sojourn-run/sojourn/event"
)

// followed is how far the main files were parsed: to a line behind which nothing
// is held back.
type followed struct {
	Version int `json:"v"`
	// File is the index of the current file among the main ones.
	File    int            `json:"file,omitempty"`
	At      lines.Mark     `json:"at,omitzero"`
	Prompts map[string]int `json:"prompts,omitempty"`
	Book    chatLogState   `json:"book,omitzero"`
}

const followedVersion = 1

// Follow continues to parse the main files. The model's output is emitted at the
// next prompt or call, so the last output of a turn is emitted again by the next
// call.
func (a *Adapter) Follow(home adapters.Home, l adapters.Launch, since json.RawMessage, take func(event.Event)) (json.RawMessage, error) {
	all, err := a.Transcripts(home, l)
	if err != nil {
		return since, err
	}
	mains := slices.DeleteFunc(all, func(t adapters.Transcript) bool { return !isMain(t.ID) || t.Kind != adapters.Append })
	slices.SortStableFunc(mains, func(a, b adapters.Transcript) int { return numberOf(a.ID) - numberOf(b.ID) })
	at := followed{Version: followedVersion}
	if emit.LoadState(Name, since, &at, &at.Version, followedVersion) != nil || at.File >= len(mains) {
		at, since = followed{Version: followedVersion}, nil // it is of another build, or of other files
	}
	if at.Prompts == nil {
		at.Prompts = map[string]int{}
	}
	p := newParser(emit.To(take))
	p.prompts = at.Prompts
	for n := at.File; n < len(mains); n++ {
		if n > at.File {
			at = followed{Version: followedVersion, File: n, Prompts: p.prompts}
		}
		last, err := p.follow(home, mains[n].Path, at)
		if errors.Is(err, lines.ErrAnother) {
			return a.Follow(home, l, nil, take)
		}
		if err != nil {
			return since, err
		}
		if last != nil {
			since = last
		}
	}
	return since, nil
}

// follow emits the rest of a main file, and returns the last position in it
// behind which nothing is held back; nil if that is not behind at.
func (p *parser) follow(home adapters.Home, path string, at followed) (last json.RawMessage, err error) {
	in, err := lines.OpenAt(Name, home, path, at.At)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	b := &chatLog{parser: p, chatLogState: at.Book}
	var marshal error
	err = in.Followed(func(line []byte) {
		_ = readLine(slices.Clone(line), b.record) // a bad line costs that line
		if p.Flush(&p.Emitter); b.holds() {
			return
		}
		b.Seen.forget()
		at.At, at.Book = in.Mark(), b.chatLogState
		last, marshal = json.Marshal(at)
	})
	b.endTurn()
	p.Flush(&p.Emitter)
	return last, errors.Join(err, marshal)
}
