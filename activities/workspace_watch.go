package activities

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/stream"
)

// keepEvery is how often a running turn's workspace goes to the archive, for
// when its host is lost.
const keepEvery = time.Minute

// watching follows a workspace beside a running turn: what changes is told at
// once, and archived now and then.
type watching struct {
	keeper *keeper
	seen   chan []sighting
	ends   sync.WaitGroup
}

// watchWorkspace begins to follow the workspace, until ctx ends; stop waits for
// that. A folder of the user's is not followed.
func (t *turn) watchWorkspace(ctx context.Context) *watching {
	w := &watching{keeper: t.host.keeper(t.in.Agent, t.agent.sb, t.in.Sandbox.Epoch), seen: make(chan []sighting)}
	if w.keeper == nil {
		return w
	}
	log := t.host.o.Log.With("session", t.in.Agent.SessionID)
	w.ends.Go(func() {
		if err := w.follow(ctx, t); err != nil && ctx.Err() == nil {
			// The looks of the archive see the same changes, later.
			log.Warn("the workspace is not watched", "error", err)
		}
	})
	w.ends.Go(func() {
		for range ticks(ctx, keepEvery) {
			news, _, err := w.keeper.sync(ctx)
			w.pass(ctx, news)
			if err != nil && ctx.Err() == nil {
				log.Warn("the workspace is archived later", "error", err)
			}
		}
	})
	return w
}

// ticks come until ctx ends.
func ticks(ctx context.Context, d time.Duration) func(func(time.Time) bool) {
	return func(yield func(time.Time) bool) {
		clock := time.NewTicker(d)
		defer clock.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-clock.C:
				if !yield(now) {
					return
				}
			}
		}
	}
}

func (w *watching) stop() { w.ends.Wait() }

func (w *watching) pass(ctx context.Context, seen []sighting) {
	if len(seen) == 0 {
		return
	}
	select {
	case w.seen <- seen:
	case <-ctx.Done():
	}
}

// follow tells what the runner's watch tells.
func (w *watching) follow(ctx context.Context, t *turn) error {
	if err := w.catchUp(ctx, t); err != nil {
		return err
	}
	info, err := w.keeper.sb.Info(ctx)
	if err != nil {
		return err
	}
	p, err := w.keeper.sb.Exec(ctx, sandbox.Command{Dir: "/", Argv: []string{
		info.Paths.Runner, "watch", "--dir", info.Paths.Workspace, "--ignore", strings.Join(untoldFolders(), ","),
		"--since", strconv.FormatInt(t.began.UnixNano(), 10),
	}})
	if err != nil {
		return err
	}
	err = w.listen(ctx, p)
	// It ends when its input does.
	err = errors.Join(err, p.Stdin().Close())
	said, _ := io.ReadAll(io.LimitReader(p.Stderr(), 500)) // only words for the log
	code, werr := p.Wait(context.WithoutCancel(ctx))
	err = errors.Join(err, werr, p.Stdout().Close(), p.Stderr().Close())
	if err == nil && code != 0 {
		err = fmt.Errorf("watch: exit %d: %s", code, said)
	}
	return err
}

func (w *watching) listen(ctx context.Context, p sandbox.Process) error {
	lines := bufio.NewReaderSize(p.Stdout(), 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		var c runner.FileChange
		if err := json.Unmarshal(line, &c); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		if !sandbox.CleanPath(c.Path) || !toldOf(c.Path) {
			continue
		}
		w.pass(ctx, []sighting{{path: c.Path, gone: c.Gone, sum: c.SHA256, mode: c.Mode, size: c.Size, content: c.Content, at: time.Now()}})
	}
}

// catchUp learns what the attempts before this one have told.
func (w *watching) catchUp(ctx context.Context, t *turn) error {
	if err := w.keeper.ready(ctx); err != nil {
		return err
	}
	if !t.owned && t.in.Resumes == nil {
		return nil
	}
	for ev, err := range t.host.o.Stream.Read(ctx, t.in.Agent.SessionID, t.since(), stream.ReadOptions{}) {
		if errors.Is(err, stream.ErrPurged) {
			return nil
		}
		if err != nil {
			return err
		}
		w.keeper.teller.hear(ev)
	}
	return nil
}

// ready asks the archive what it has, unless that is known.
func (k *keeper) ready(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.open(ctx)
}

// sayFiles tells subscribers what is news.
func (t *turn) sayFiles(ctx context.Context, k *keeper, seen []sighting) error {
	return t.out.Add(ctx, k.teller.tell(seen), stream.Position{})
}
