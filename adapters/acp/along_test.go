package acp

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/test/modelsim"
	"github.com/sojourn-run/sojourn/test/replay"
	"github.com/sojourn-run/sojourn/test/skip"
)

// talk runs the program through a separate exchange, with the translator.
type talk struct {
	t     *testing.T
	tr    adapters.Translator
	in    io.WriteCloser
	lines *bufio.Scanner
	cmd   *exec.Cmd
}

func startTalk(t *testing.T, url, home, folder string, l adapters.Launch) *talk {
	t.Helper()
	bin, err := filepath.Abs(filepath.Join("..", "..", ".agents", "bin"))
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(bin, "opencode")); err != nil {
		skip.Without(t, "the agent's program: make agents installs it")
	}
	l.Workspace = folder
	c := &talk{t: t, cmd: exec.CommandContext(t.Context(), filepath.Join(bin, "opencode"), "acp")}
	c.cmd.Dir = folder
	c.cmd.Env = append(modelsim.Environment(url), "HOME="+home, "PATH="+bin+":"+os.Getenv("PATH"),
		"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1")
	c.tr, err = New().Translator(l, nil)
	require.NoError(t, err)
	c.in, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.lines = bufio.NewScanner(out)
	c.lines.Buffer(nil, 16<<20)
	require.NoError(t, c.cmd.Start())
	first, err := c.tr.Encode("i0", adapters.Initialize{})
	require.NoError(t, err)
	c.write(first)
	return c
}

func (c *talk) write(messages []adapters.Message) {
	for _, m := range messages {
		c.tr.Step(said("> " + string(m.Data))[0])
		_, err := c.in.Write(append(m.Data, '\n'))
		require.NoError(c.t, err)
	}
}

// ask sends a prompt as soon as it can be sent, and returns the output up to its
// answer.
func (c *talk) ask(id, text string) string {
	var all strings.Builder
	asked := false
	for c.lines.Scan() {
		all.WriteString(c.lines.Text() + "\n")
		c.tr.Step(said(c.lines.Text())[0])
		c.write(c.tr.Due())
		if m, err := c.tr.Encode(id, adapters.Prompt{Text: text}); err == nil && !asked {
			asked = true
			c.write(m)
		}
		var answer struct{ ID any }
		if json.Unmarshal(c.lines.Bytes(), &answer) == nil && answer.ID == id {
			return all.String()
		}
	}
	require.FailNow(c.t, "the program ended", "%v", c.lines.Err())
	return ""
}

// With its own files restored in another home, a program continues where it was.
func TestFilesComeAlong(t *testing.T) {
	skip.InShort(t, "TestConformance resumes on another host")
	t.Parallel()
	sim := modelsim.New(modelsim.Options{})
	url, err := sim.Start(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(sim.Close)
	folder, h := t.TempDir(), newHouse(t, ".local/share/opencode/opencode.db*")
	c := startTalk(t, url, h.dir, folder, adapters.Launch{})
	c.ask("p1", "SAY remember-the-first")
	session := c.tr.(interface{ Session() string }).Session()

	// While it runs: the exported files are of one moment.
	running, at, err := exported(h.home(), files, nil)
	require.NoError(t, err)
	require.NoError(t, c.in.Close())
	require.NoError(t, c.cmd.Wait())
	ended, _, err := exported(h.home(), files, at)
	require.NoError(t, err)

	other := t.TempDir()
	got, err := replay.Imported(New(), adapters.Launch{}, source(append(running, ended...)))
	require.NoError(t, err)
	require.Greater(t, len(got), 1)
	for name, data := range got {
		path := filepath.Join(other, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
	c = startTalk(t, url, other, folder, adapters.Launch{NativeID: session, Resume: true})
	require.Contains(t, c.ask("p2", "RECALL"), "remember-the-first")
	require.NoError(t, c.in.Close())
	require.NoError(t, c.cmd.Wait())
}
