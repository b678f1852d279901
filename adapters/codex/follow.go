package codex

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/adapters/internal/lines"
	"github.com/sojourn-run/sojourn/event"
)

// followed is how far a session's own rollout was parsed: to the end of a turn.
type followed struct {
	At    lines.Mark `json:"at,omitzero"`
	State *state     `json:"state"`
	// Plain and Last are those of the file, see file.plain and reading.last.
	Plain bool  `json:"plain,omitempty"`
	Last  int64 `json:"last,omitempty"`
}

// Follow continues to parse the session's own rollout. A turn is emitted in the
// order of its times, so one that has not ended is emitted again by the next
// call.
func (a *Adapter) Follow(home adapters.Home, l adapters.Launch, since json.RawMessage, take func(event.Event)) (json.RawMessage, error) {
	name, err := a.mainRollout(home, l)
	if err != nil || name == "" {
		return since, err
	}
	at := followed{State: newState()}
	if err := emit.LoadState(Name, since, &at, &at.State.Version, stateVersion); err != nil {
		at, since = followed{State: newState()}, nil // it is of another build
	}
	in, err := lines.OpenAt(Name, home, name, at.At)
	if errors.Is(err, lines.ErrAnother) {
		return a.Follow(home, l, nil, take)
	}
	if err != nil {
		return since, err
	}
	defer in.Close()
	f := &file{Transcript: adapters.Transcript{ID: event.Main, Path: name}, in: in, plain: at.Plain, turn: reading{last: at.Last}}
	p := &parser{emitter: newEmitter(at.State), hasMain: true, Yielder: emit.To(take)}
	p.thread(f.ID).Conversation = event.Main
	var marshal error
	err = in.Followed(func(line []byte) {
		_ = f.line(slices.Clone(line)) // a bad line costs that line
		if p.emitReady(f); f.betweenTurns() {
			since, marshal = json.Marshal(followed{At: in.Mark(), State: p.state, Plain: f.plain, Last: f.turn.last})
		}
	})
	if err = errors.Join(err, marshal); err != nil {
		return since, err
	}
	f.flushTurn(false)
	p.emitReady(f)
	p.finish()
	return since, nil
}

// emitReady emits what was read of a file and is in order.
func (p *parser) emitReady(f *file) {
	for _, t := range f.ready {
		p.Time, p.plain = t.time(), f.plain
		t.emit(&p.emitter, p.thread(f.ID), f.ID)
	}
	f.ready = nil
	p.Flush(&p.Emitter)
}

// betweenTurns reports whether nothing that was read is held back.
func (f *file) betweenTurns() bool {
	return f.turn.id == "" && len(f.turn.parts) == 0 && len(f.turn.calls) == 0
}

// mainRollout returns the path of the session's own rollout; "" if there is none.
func (a *Adapter) mainRollout(home adapters.Home, l adapters.Launch) (string, error) {
	if l.NativeID != "" {
		found, err := home.Glob(path.Join(sessionsDir, "*", "*", "*", rolloutPrefix+"*-"+l.NativeID+rolloutSuffix))
		if err != nil {
			return "", fmt.Errorf("codex: find rollout: %w", err)
		}
		if len(found) == 1 {
			return found[0], nil
		}
	}
	found, err := a.Transcripts(home, l)
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0].Path, nil
}
