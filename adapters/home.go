package adapters

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/sojourn-run/sojourn/event"
)

// DirHome is a Home in a folder of this machine. Nothing outside the folder can
// be reached through it, also not by symbolic links. Safe for concurrent use.
type DirHome struct{ dir string }

var _ Home = DirHome{}

// OpenHome returns the folder as a home. It fails if dir is not a folder.
func OpenHome(dir string) (DirHome, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return DirHome{}, fmt.Errorf("open home: %w", err)
	}
	if !info.IsDir() {
		return DirHome{}, fmt.Errorf("open home: %s is not a folder", dir)
	}
	return DirHome{dir}, nil
}

// Glob returns the files that match a pattern of path.Match, in order.
func (h DirHome) Glob(pattern string) ([]string, error) {
	root, err := os.OpenRoot(h.dir)
	if err != nil {
		return nil, fmt.Errorf("glob %s: %w", pattern, err)
	}
	defer root.Close()
	found, err := fs.Glob(root.FS(), pattern)
	if err != nil {
		return nil, fmt.Errorf("glob %s: %w", pattern, err)
	}
	slices.Sort(found)
	return found, nil
}

// Open opens a file for reading; path is relative to the folder.
func (h DirHome) Open(path string) (io.ReadCloser, error) {
	return os.OpenInRoot(h.dir, filepath.FromSlash(path))
}

// OpenAt opens a file for reading from a byte on; of one that is shorter nothing
// is read.
func (h DirHome) OpenAt(path string, offset int64) (io.ReadCloser, error) {
	f, err := os.OpenInRoot(h.dir, filepath.FromSlash(path))
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Size returns the size of a file in bytes; 0 if there is none.
func (h DirHome) Size(path string) (int64, error) {
	root, err := os.OpenRoot(h.dir)
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", path, err)
	}
	defer root.Close()
	info, err := root.Stat(filepath.FromSlash(path))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Identifier is an adapter that recognises a single transcript file by its name.
// Without it a file is taken as the main transcript.
type Identifier interface {
	// Identify returns the transcripts of a file, given relative to home, and of its
	// companion files.
	Identify(home Home, file string) ([]Transcript, error)
}

// ErrNoTranscript is wrapped by SourcesFrom for a folder without transcripts.
var ErrNoTranscript = errors.New("no transcript found")

// ErrManySessions is wrapped by SourcesFrom for paths of more than one session.
var ErrManySessions = errors.New("several sessions")

// SourcesFrom returns the transcripts of one conversation at the paths: native
// transcript files, each with its companions, or folders laid out like the
// agent's home. Paths that hold more than one session are refused, with the
// sessions' files named.
func SourcesFrom(a Adapter, paths ...string) ([]Source, error) {
	var found []Source
	seen := map[string]bool{}
	for _, path := range paths {
		sources, err := sourcesAt(a, path)
		if err != nil {
			return nil, err
		}
		for _, s := range sources {
			if !seen[s.Path] {
				seen[s.Path] = true
				found = append(found, s)
			}
		}
	}
	return found, oneSession(found)
}

func oneSession(sources []Source) error {
	var mains []string
	for _, s := range sources {
		if s.ID == event.Main {
			mains = append(mains, s.Path)
		}
	}
	if len(mains) > 1 {
		return fmt.Errorf("%w, give one file of %q", ErrManySessions, mains)
	}
	return nil
}

func sourcesAt(a Adapter, path string) ([]Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read transcript: %w", err)
	}
	if !info.IsDir() {
		return sourcesOfFile(a, path)
	}
	home := DirHome{path}
	found, err := a.Transcripts(home, Launch{Home: path})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %s holds no %s session", ErrNoTranscript, path, a.Info().Product)
	}
	return sources(home, found), nil
}

func sourcesOfFile(a Adapter, path string) ([]Source, error) {
	home, name := DirHome{filepath.Dir(path)}, filepath.Base(path)
	id, ok := a.(Identifier)
	if !ok {
		return sources(home, []Transcript{{ID: event.Main, Path: name, Kind: Append}}), nil
	}
	found, err := id.Identify(home, name)
	if err != nil {
		return nil, err
	}
	return sources(home, found), nil
}

// sources returns transcripts of a home that are opened when they are read, and
// named by their paths.
func sources(home DirHome, found []Transcript) []Source {
	out := make([]Source, len(found))
	for i, t := range found {
		within := t.Path
		t.Path = filepath.Join(home.dir, filepath.FromSlash(within))
		out[i] = Source{Transcript: t, Open: func() (io.ReadCloser, error) { return home.Open(within) }}
	}
	return out
}
