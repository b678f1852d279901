package opencode

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/event"
)

// Follow emits the rows that have changed. Its cursor is that of an export. A
// native session of which no message has changed is emitted as a separate one,
// because parts only name their session.
func (a *Adapter) Follow(home adapters.Home, l adapters.Launch, since json.RawMessage, take func(event.Event)) (json.RawMessage, error) {
	found, err := a.Transcripts(home, l)
	if err != nil || len(found) == 0 {
		return since, err
	}
	r := &reader{path: found[0].Path, snapshot: newSnapshot(new(rowStore))}
	next, err := a.Export(home, found[0], since, func(lines []byte) error {
		return r.lines(nil, bufio.NewReader(bytes.NewReader(lines)))
	})
	if err != nil {
		return since, errors.Join(err, r.snapshot.close())
	}
	p := &parser{Yielder: emit.Yielder{Yield: func(ev event.Event, fault error) bool {
		if err = fault; err == nil {
			take(ev)
		}
		return err == nil
	}}}
	for _, root := range r.snapshot.roots() {
		p.emitRoot(r.snapshot, root)
	}
	if err = errors.Join(err, r.snapshot.close()); err != nil {
		return since, err
	}
	return next, nil
}
