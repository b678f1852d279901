package recordings

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// archives are the two smallest, with their checksums.
func archives(t *testing.T) fstest.MapFS {
	t.Helper()
	read := func(name string) []byte {
		data, err := packed.ReadFile("testdata/" + name)
		require.NoError(t, err)
		return data
	}
	out := fstest.MapFS{}
	var listed strings.Builder
	for line := range strings.Lines(string(read(sums))) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if name == "gemini.tar.gz" || name == "opencode.tar.gz" {
			listed.WriteString(line)
			out[name] = &fstest.MapFile{Data: read(name)}
		}
	}
	require.Len(t, out, 2)
	out[sums] = &fstest.MapFile{Data: []byte(listed.String())}
	return out
}

// Every agent has scenarios, each with its process's command line and output.
func TestDir(t *testing.T) {
	t.Parallel()
	for _, agent := range []string{"claude", "codex", "gemini", "opencode"} {
		runs, err := filepath.Glob(filepath.Join(Dir(t, agent), "*", "*cmd.txt"))
		require.NoError(t, err)
		require.NotEmpty(t, runs, agent)
	}
	require.Equal(t, filepath.Dir(Dir(t, "claude")), Dir(t, ""))
}

// One flipped byte is reported in one line that names the file, also if the recordings
// were unpacked before.
func TestDamagedArchive(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	_, err := unpack(archives(t), bin)
	require.NoError(t, err)
	for name := range archives(t) {
		if name == sums {
			continue
		}
		damaged := archives(t)
		data := bytes.Clone(damaged[name].Data)
		data[len(data)/2] ^= 1
		damaged[name] = &fstest.MapFile{Data: data}
		_, err := unpack(damaged, bin)
		require.ErrorContains(t, err, "test/recordings/testdata/"+name+" is damaged: its SHA-256 is ")
		require.NotContains(t, err.Error(), "\n")
	}
}

// An archive without a checksum and a checksum without an archive are faults.
func TestArchiveAndChecksumBelongTogether(t *testing.T) {
	t.Parallel()
	more, fewer := archives(t), archives(t)
	more["new.tar.gz"] = &fstest.MapFile{}
	delete(fewer, "gemini.tar.gz")
	_, err := unpack(more, t.TempDir())
	require.EqualError(t, err, "new.tar.gz has no checksum in SHA256SUMS: pack.sh writes it")
	_, err = unpack(fewer, t.TempDir())
	require.ErrorContains(t, err, "gemini.tar.gz")
}

// Archives are unpacked once, and by one process whole or not at all.
func TestUnpackedOnce(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	dirs := make(chan string)
	for range 3 {
		go func() {
			dir, err := unpack(archives(t), bin)
			if err != nil {
				dir = err.Error()
			}
			dirs <- dir
		}()
	}
	first := <-dirs
	require.DirExists(t, first)
	require.Equal(t, first, <-dirs)
	require.Equal(t, first, <-dirs)
	left, err := os.ReadDir(bin)
	require.NoError(t, err)
	require.Len(t, left, 1)
}
