package profiles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"

	"github.com/sojourn-run/sojourn/adapters"
)

// ErrNotFound is wrapped by Load for an id that has no folder.
var ErrNotFound = errors.New("profile not found")

// Options bound the size of one profile. The zero value is ready to use.
type Options struct {
	// MaxFiles is the number of files. Default: 1000.
	MaxFiles int
	// MaxBytes is the size of all files together. Default: 16 MiB.
	MaxBytes int64
}

// Store is a folder of profiles. It holds no open files and is safe for
// concurrent use.
type Store struct {
	dir  string
	opts Options
}

// Open returns the store in a folder. It fails if dir is not a folder.
func Open(dir string, opts Options) (*Store, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open profiles: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open profiles: %s is not a folder", dir)
	}
	opts.MaxFiles = cmp.Or(opts.MaxFiles, 1000)
	opts.MaxBytes = cmp.Or(opts.MaxBytes, 16<<20)
	return &Store{dir, opts}, nil
}

var validID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// List returns all profiles with their contents, by id. Folders whose name is not
// a valid id are left out. The first broken profile is an error, which names its
// file.
func (s *Store) List(ctx context.Context) ([]adapters.Profile, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list profiles: %w", err)
	}
	var out []adapters.Profile
	for _, e := range entries {
		if !e.IsDir() || !validID.MatchString(e.Name()) {
			continue
		}
		p, err := s.Load(ctx, e.Name())
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// Load reads a profile. An id without a folder is ErrNotFound; every other error
// names the file and the field at fault.
func (s *Store) Load(ctx context.Context, id string) (adapters.Profile, error) {
	p, err := s.load(ctx, id)
	if err != nil {
		return adapters.Profile{}, fmt.Errorf("profile %q: %w", id, err)
	}
	return p, nil
}

func (s *Store) load(ctx context.Context, id string) (adapters.Profile, error) {
	if !validID.MatchString(id) {
		return adapters.Profile{}, fmt.Errorf("%w: an id has 1 to 64 of the characters A-Z a-z 0-9 _ -", ErrNotFound)
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return adapters.Profile{}, err
	}
	defer root.Close()
	folder, err := root.OpenRoot(id)
	if errors.Is(err, fs.ErrNotExist) {
		return adapters.Profile{}, fmt.Errorf("%w in %s", ErrNotFound, s.dir)
	}
	if err != nil {
		return adapters.Profile{}, err
	}
	defer folder.Close()
	r := &reader{ctx: ctx, fsys: folder.FS(), opts: s.opts}
	p, err := r.profile(id)
	if err != nil {
		return adapters.Profile{}, err
	}
	return p, Check(p)
}
