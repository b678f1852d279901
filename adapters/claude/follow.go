package claude

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/internal/emit"
	"github.com/sojourn-run/sojourn/adapters/internal/lines"
	"github.com/sojourn-run/sojourn/event"
)

// followed is how far a session's own transcript was parsed.
type followed struct {
	At    lines.Mark `json:"at,omitzero"`
	State *state     `json:"state"`
}

// Follow continues to parse the session's own transcript. Lines that a compaction
// writes again may be emitted again.
func (a *Adapter) Follow(home adapters.Home, l adapters.Launch, since json.RawMessage, take func(event.Event)) (json.RawMessage, error) {
	path, err := mainFile(home, l)
	if err != nil || path == "" {
		return since, err
	}
	f := followed{State: newState()}
	if err := emit.LoadState(Name, since, &f, &f.State.Version, stateVersion); err != nil {
		f = followed{State: newState()} // it is of another build
	}
	in, err := lines.OpenAt(Name, home, path, f.At)
	if errors.Is(err, lines.ErrAnother) {
		return a.Follow(home, l, nil, take)
	}
	if err != nil {
		return since, err
	}
	defer in.Close()
	p := &parser{emitter: newEmitter(f.State), Yielder: emit.To(take)}
	file := &file{in: in}
	for more := true; more; {
		if more, err = file.advance(); more && err == nil {
			p.Time = file.time
			p.line(event.Main, &file.next)
			p.Flush(&p.Emitter)
		}
	}
	if err != nil {
		return since, err
	}
	f.At = in.Mark()
	next, err := json.Marshal(f)
	if err != nil {
		return since, fmt.Errorf("claude: parser state: %w", err)
	}
	p.finish()
	return next, nil
}

// mainFile returns the path of the session's own transcript; "" if there is none.
func mainFile(home adapters.Home, l adapters.Launch) (string, error) {
	mains, err := mainFiles(home, l)
	if err != nil || len(mains) == 0 {
		return "", err
	}
	return mains[0], nil
}
