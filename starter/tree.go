package starter

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/starter/internal/render"
)

// treeShower shows the events of a session and of those below it, as JSON lines or
// rendered, each child in the place of a subagent.
type treeShower struct {
	p        *render.Printer // nil for JSON
	encoder  *json.Encoder
	branches map[string]branch
}

// branch is where a child session is in the tree.
type branch struct {
	// thread is the tool use id of its spawn behind those above it, as [render.Printer]
	// wants it.
	thread string
	path   []string
}

// newTreeShower returns one for a printer, or for JSON if that is nil.
func (c *cli) newTreeShower(p *render.Printer) *treeShower {
	return &treeShower{p: p, encoder: c.encoder(), branches: map[string]branch{}}
}

func (t *treeShower) show(e event.Event) error {
	t.note(e)
	at := t.branches[e.Context.SessionID]
	switch {
	case t.p == nil:
		return t.encoder.Encode(session.TreeEvent{Event: e, SpawnPath: at.path})
	case at.thread == "":
		return t.p.Event(e)
	}
	return t.p.Below(at.thread, e)
}

// note remembers where a child is.
func (t *treeShower) note(e event.Event) {
	s, ok := e.Payload.(event.SubagentSpawned)
	if !ok || s.ChildSessionID == "" {
		return
	}
	above := t.branches[e.Context.SessionID]
	t.branches[s.ChildSessionID] = branch{
		thread: strings.TrimPrefix(above.thread+"/"+s.ToolUseID, "/"),
		path:   append(above.path[:len(above.path):len(above.path)], s.ChildSessionID),
	}
}

func (t *treeShower) flush() error {
	if t.p == nil {
		return nil
	}
	return t.p.Flush()
}

// tailTree shows the events of a session and of those below it.
func (c *cli) tailTree(cmd *cobra.Command, id string, follow bool) error {
	for _, other := range []string{"after", "names"} {
		if cmd.Flags().Changed(other) {
			return usage("show the tree from its beginning, or one session behind an event", "--tree does not go with --%s", other)
		}
	}
	if err := session.ValidateID("id", id); err != nil {
		return err
	}
	ctx := cmd.Context()
	needs, err := c.knownToStream(ctx, id, 0)
	if err != nil {
		return err
	}
	sc, err := c.client(ctx, needs)
	if err != nil {
		return err
	}
	return c.showTree(ctx, sc, id, follow)
}

func (c *cli) showTree(ctx context.Context, sc *session.Client, id string, follow bool) error {
	var p *render.Printer
	if !c.json {
		p = render.New(c.stdout, c.renderOptions(c.stdout))
	}
	t := c.newTreeShower(p)
	for e, err := range sc.TreeEvents(ctx, id, session.TreeOptions{Follow: follow}) {
		if err == nil {
			err = t.show(e.Event)
		}
		if err != nil {
			return joinFlush(err, t.flush)
		}
	}
	return t.flush()
}
