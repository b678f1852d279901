package gemini

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
)

// readHome counts the bytes that are read of a home.
type readHome struct {
	adapters.Home
	read int
}

type countedFile struct {
	io.ReadCloser
	home *readHome
}

func (h *readHome) Open(path string) (io.ReadCloser, error) {
	in, err := h.Home.Open(path)
	return countedFile{in, h}, err
}

func (f countedFile) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	f.home.read += n
	return n, err
}

// Identifying a chat file costs the same however long the conversation is: it is
// done several times in every turn.
func TestAFileIsKnownByItsHead(t *testing.T) {
	t.Parallel()
	const chatFile = ".gemini/tmp/p/chats/session-2000-01-01T00-00-s.jsonl"
	dir := t.TempDir()
	text := `{"sessionId":"s","projectHash":"x","startTime":"2026-11-21T00:30:19.935Z","kind":"main"}` + "\n"
	for n := range 200 {
		text += fmt.Sprintf(`{"id":"u%d","timestamp":"2026-11-21T00:30:19.946Z","type":"user","content":[{"text":"%s"}]}`+"\n", n, strings.Repeat("word ", 500))
	}
	file := filepath.Join(dir, filepath.FromSlash(chatFile))
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	plain, err := adapters.OpenHome(dir)
	require.NoError(t, err)
	home := &readHome{Home: plain}
	found, err := chats(home, glance, false)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.LessOrEqual(t, home.read, 8<<10)

	home.read = 0
	_, err = New().Identify(home, chatFile)
	require.NoError(t, err)
	require.LessOrEqual(t, home.read, 8<<10)

	home.read = 0
	_, err = chats(home, whole, false)
	require.NoError(t, err)
	require.Equal(t, len(text), home.read)
}
