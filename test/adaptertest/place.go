package adaptertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/sandbox/local"
	"github.com/sojourn-run/sojourn/test/sandboxtest"
)

// place is a host's folder with one sandbox.
type place struct {
	data, workspace string
	sb              sandbox.Sandbox
	paths           sandbox.Paths
	env             []string
}

// newPlace creates a sandbox in a folder of its own, with the environment that a host
// would pass on. Unless inPlace is set, the sandbox has its own workspace.
func newPlace(t testing.TB, env []string, inPlace bool) *place {
	t.Helper()
	runner, err := runnerProgram()
	require.NoError(t, err)
	p := &place{}
	p.data, err = os.MkdirTemp("", "sj-") // t.TempDir is too long for a socket
	require.NoError(t, err)
	if inPlace {
		p.workspace, err = os.MkdirTemp("", "Other_place-")
		require.NoError(t, err)
	}
	home, _ := os.UserHomeDir() // without a home folder none is hidden
	provider, err := local.New(t.Context(), local.Options{
		DataDir: p.data, Runner: runner, PassEnv: names(env), Getenv: getter(env), UserHome: home, Keep: []string{installed()},
		UnsafeLocal: true, // the test is about the agents, not the isolation
	})
	require.NoError(t, err)
	p.sb, err = provider.Create(t.Context(), sandbox.Spec{ID: "box", SessionID: "session", Epoch: 1, Workspace: p.workspace})
	require.NoError(t, err)
	info, err := p.sb.Info(t.Context())
	require.NoError(t, err)
	p.paths, p.env = info.Paths, info.Env
	return p
}

func names(env []string) []string {
	var out []string
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		out = append(out, name)
	}
	return out
}

// getter returns a lookup of the host's environment: what the agent needs, and PATH.
func getter(env []string) func(string) string {
	return func(name string) string {
		for _, entry := range slices.Backward(env) {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				return value
			}
		}
		if name == "PATH" {
			return searchPath()
		}
		return ""
	}
}

// remove terminates the sandbox and deletes its folders.
func (p *place) remove() error {
	err := p.sb.Terminate(context.Background())
	if p.workspace != "" {
		err = errors.Join(err, os.RemoveAll(p.workspace))
	}
	return errors.Join(err, os.RemoveAll(p.data))
}

func (p *place) home() adapters.DirHome {
	home, err := adapters.OpenHome(p.paths.Home)
	if err != nil {
		panic(err) // the provider has just created it
	}
	return home
}

// environment returns the sandbox's environment, as an adapter gets it.
func (p *place) environment() map[string]string {
	out := map[string]string{}
	for _, entry := range p.env {
		name, value, _ := strings.Cut(entry, "=")
		out[name] = value
	}
	return out
}

// write writes files into home and workspace as a host does.
func (p *place) write(ctx context.Context, files []adapters.File) error {
	for base, area := range map[adapters.Base]sandbox.Area{adapters.InHome: sandbox.AreaHome, adapters.InWorkspace: sandbox.AreaWorkspace} {
		var wanted []sandbox.File
		for _, f := range files {
			if f.Base == base {
				wanted = append(wanted, fileOf(f.Path, fs.FileMode(f.Mode), f.Data))
			}
		}
		if err := p.sb.CopyIn(ctx, area, sandbox.Files(wanted...)); err != nil {
			return err
		}
	}
	return nil
}

// repair writes the repairs that Prepare returned.
func (p *place) repair(ctx context.Context, repairs []adapters.Repair) error {
	for _, r := range repairs {
		in, err := r.Open(p.home())
		if err != nil {
			return err
		}
		file := sandbox.File{Path: r.Path, Mode: 0o600, Size: r.Size(), Body: in}
		if err := errors.Join(p.sb.CopyIn(ctx, sandbox.AreaHome, sandbox.Files(file)), in.Close()); err != nil {
			return err
		}
	}
	return nil
}

func fileOf(path string, mode fs.FileMode, data []byte) sandbox.File {
	if mode == 0 {
		mode = 0o644
	}
	return sandbox.File{Path: path, Mode: mode, Size: int64(len(data)), Body: bytes.NewReader(data)}
}

// moveFiles moves files of the home.
func (p *place) moveFiles(moves []adapters.Move) error {
	home, err := os.OpenRoot(p.paths.Home)
	if err != nil {
		return err
	}
	defer home.Close()
	for _, m := range moves {
		err := home.MkdirAll(filepath.FromSlash(path.Dir(m.To)), 0o700)
		if err = errors.Join(err, home.Rename(filepath.FromSlash(m.From), filepath.FromSlash(m.To))); err != nil {
			return err
		}
	}
	return nil
}

// copyWorkspace copies the workspace of another place.
func (p *place) copyWorkspace(ctx context.Context, from *place) error {
	return p.sb.CopyIn(ctx, sandbox.AreaWorkspace, sandboxtest.FromFS(os.DirFS(from.paths.Workspace)))
}

// sourcesIn returns transcripts of a home, which are opened when they are read.
func sourcesIn(home adapters.Home, found []adapters.Transcript) []adapters.Source {
	var out []adapters.Source
	for _, f := range found {
		out = append(out, adapters.Source{Transcript: f, Open: func() (io.ReadCloser, error) { return home.Open(f.Path) }})
	}
	return out
}
