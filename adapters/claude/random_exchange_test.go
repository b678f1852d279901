package claude

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/test/modelsim"
	"github.com/sojourn-run/sojourn/test/skip"
)

// exchange is a process of the agent as the random search needs it and no host
// runs it: without an opening, with its prompt among the arguments and no input,
// given raw lines, ended by any signal. All other tests have a Rig. Both
// directions go through one translator, as behind a runner.
type exchange struct {
	t      *testing.T
	launch adapters.Launch
	model  *modelsim.Server
	env    []string

	cmd     *exec.Cmd
	stdin   io.WriteCloser
	readers sync.WaitGroup

	mu      sync.Mutex
	tr      adapters.Translator
	records []traffic.Record
	fold    *reducer.Builder
	// seen gets every event; the test picks those that it waits for.
	seen chan event.Event
}

// realAgent starts nothing yet: it finds the program, or skips the test.
func realAgent(t *testing.T) *exchange {
	t.Helper()
	program, err := New().Locate(func(name string) string {
		if name == ProgramVariable && os.Getenv(name) == "" {
			return pinned()
		}
		return os.Getenv(name)
	})
	if errors.Is(err, adapters.ErrNotInstalled) {
		skip.Without(t, fmt.Sprintf("the agent's program: %v: make agents installs it", err))
	}
	require.NoError(t, err)
	model := modelsim.New(modelsim.Options{Pace: 5 * time.Millisecond})
	url, err := model.Start(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(model.Close)
	tr, err := New().Translator(adapters.Launch{}, nil)
	require.NoError(t, err)
	x := &exchange{t: t, model: model, tr: tr, fold: reducer.NewBuilder(reducer.State{}), seen: make(chan event.Event, 1<<16)}
	session := uuid.NewString()
	x.launch = adapters.Launch{
		Program: program, Home: t.TempDir(), Workspace: t.TempDir(), SessionID: session,
		NativeID: New().NativeID(session, 1), Permission: adapters.PermissionAllow,
	}
	x.env = []string{"PATH=" + os.Getenv("PATH"), "ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=sk-modelsim", "CLAUDE_CODE_MAX_RETRIES=1"}
	return x
}

// pinned returns the path of the repository's own copy of the agent.
func pinned() string {
	path := filepath.Join("..", "..", ".agents", "node_modules", ".bin", Name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

func (x *exchange) install(p adapters.Profile) {
	x.t.Helper()
	files, err := New().ProfileFiles(p, x.launch)
	require.NoError(x.t, err)
	for _, f := range files {
		base := x.launch.Home
		if f.Base == adapters.InWorkspace {
			base = x.launch.Workspace
		}
		path := filepath.Join(base, filepath.FromSlash(f.Path))
		require.NoError(x.t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(x.t, os.WriteFile(path, f.Data, os.FileMode(f.Mode)))
	}
}

func (x *exchange) read(r io.Reader, dir event.Dir) {
	x.readers.Go(func() {
		lines := bufio.NewReader(r)
		for {
			line, err := lines.ReadString('\n')
			if line != "" {
				x.record(dir, strings.TrimSuffix(line, "\n"))
			}
			if err != nil {
				return
			}
		}
	})
}

func (x *exchange) record(dir event.Dir, line string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := traffic.Record{TS: time.Now().UTC(), Dir: dir, Line: line}
	x.records = append(x.records, r)
	for _, e := range x.tr.Step(r) {
		x.fold.Add(e)
		x.seen <- e
	}
}

func (x *exchange) state() reducer.State {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.fold.State()
}

// restored returns the conversation of the transcripts.
func (x *exchange) restored() reducer.State {
	x.t.Helper()
	home, err := adapters.OpenHome(x.launch.Home)
	require.NoError(x.t, err)
	found, err := New().Transcripts(home, x.launch)
	require.NoError(x.t, err)
	require.NotEmpty(x.t, found)
	var sources []adapters.Source
	for _, f := range found {
		sources = append(sources, adapters.Source{Transcript: f, Open: func() (io.ReadCloser, error) { return home.Open(f.Path) }})
	}
	restored, err := reducer.Fold(New().Parse(sources))
	require.NoError(x.t, err)
	return restored
}
