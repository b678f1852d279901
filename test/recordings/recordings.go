// Package recordings provides recorded input, output and files of real agents, for
// tests: one folder per agent, with one per recorded scenario. A scenario has the files
// of one process, or of several, whose names then begin with a prefix such as
// "resume-":
//
//	cmd.txt       working directory, environment and command line
//	timed.jsonl   what went in and out, line by line, with milliseconds
//	stdout.jsonl, stdin.jsonl, stderr.txt, exit.txt
//	transcripts/  what the process wrote below its home
//
// OpenCode's server also has events.sse.jsonl and http.jsonl. The model behind the
// agents was a scripted one, so its texts, token counts and signatures prove nothing
// about models.
//
// A scenario whose name begins with a version, such as v2.0.77-subagent, was recorded
// with that version of the program. The others were recorded with the one that the
// repository pinned at that time: Claude Code 2.1.197, OpenCode 1.18.33, Gemini CLI
// 0.61.0, Codex 0.169.0.
//
// The archives are in testdata, packed by pack.sh. Only tests import the package.
package recordings

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

//go:embed testdata
var packed embed.FS

const sums = "SHA256SUMS"

// unpacked is the folder of this process's recordings, which is created once.
var unpacked = sync.OnceValues(func() (string, error) {
	archives, err := fs.Sub(packed, "testdata")
	if err != nil {
		return "", err
	}
	bin, err := binFolder()
	if err != nil {
		return "", err
	}
	return unpack(archives, bin)
})

// Dir returns the folder with an agent's recordings, or with those of all agents if
// agent is "". Its files must not be changed. An archive that doesn't match its
// checksum fails the test.
func Dir(t testing.TB, agent string) string {
	t.Helper()
	all, err := unpacked()
	if err != nil {
		t.Fatalf("recordings: %v", err)
	}
	dir := filepath.Join(all, agent)
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("recordings: there are none of %s: %v", agent, err)
	}
	return dir
}

// binFolder returns the bin folder of the repository of the running test.
func binFolder() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "bin"), nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = above
	}
}

// unpack checks the archives and returns the folder below bin with their contents. The
// folder is named after their checksums and created once, by whichever process is
// first.
func unpack(archives fs.FS, bin string) (string, error) {
	listed, err := fs.ReadFile(archives, sums)
	if err != nil {
		return "", err
	}
	found, err := verified(archives, string(listed))
	if err != nil {
		return "", err
	}
	of := sha256.Sum256(listed)
	dir := filepath.Join(bin, "recordings-"+hex.EncodeToString(of[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(bin, "recordings-new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	for name, data := range found {
		if err := extract(data, fresh); err != nil {
			return "", fmt.Errorf("unpack %s: %w", name, err)
		}
	}
	if err := os.Rename(fresh, dir); err != nil {
		if _, other := os.Stat(dir); other == nil {
			return dir, nil // another process was first
		}
		return "", err
	}
	return dir, nil
}

// verified reads the archives. Each must have a checksum, and each checksum an archive.
func verified(archives fs.FS, listed string) (map[string][]byte, error) {
	names, err := fs.Glob(archives, "*.tar.gz")
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	for line := range strings.Lines(listed) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		data, err := fs.ReadFile(archives, name)
		if err != nil {
			return nil, err
		}
		if is := fmt.Sprintf("%x", sha256.Sum256(data)); is != want {
			return nil, fmt.Errorf("%s is damaged: its SHA-256 is %s, but %s has %s", path.Join("test/recordings/testdata", name), is, sums, want)
		}
		found[name] = data
	}
	for _, name := range names {
		if found[name] == nil {
			return nil, fmt.Errorf("%s has no checksum in %s: pack.sh writes it", name, sums)
		}
	}
	return found, nil
}

// extract writes an archive's files below dir, read-only.
func extract(data []byte, dir string) error {
	plain, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for r := tar.NewReader(plain); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := put(root, filepath.FromSlash(path.Clean(head.Name)), head, r); err != nil {
			return err
		}
	}
}

func put(root *os.Root, name string, head *tar.Header, content io.Reader) error {
	if head.Typeflag == tar.TypeDir {
		return root.MkdirAll(name, 0o755)
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o444)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, content); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}
