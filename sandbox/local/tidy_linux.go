package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/sandbox"
)

// removePatience bounds the removal of one folder, for which the end of a sandbox
// waits. The next Tidy removes the rest.
const removePatience = 10 * time.Second

// remove first renames the folder, so that the sandbox is gone at once however
// much there is to delete. That needs no space on a full disk. The error is a
// [sandbox.LeftError].
func (b *box) remove(ctx context.Context, paths sandbox.Paths) error {
	aside := b.provider.aside(gonePrefix + b.record.ID + "-")
	err := b.provider.rename(b.folder(), aside)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err != nil:
		// It stays in its place, and is not listed by this process any more.
		b.provider.forget(b.record.ID)
		err = &sandbox.LeftError{Path: b.folder(), Err: err}
	default:
		err = b.provider.destroy(ctx, aside)
	}
	if rmErr := os.Remove(paths.Socket); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
		err = errors.Join(err, &sandbox.LeftError{Path: paths.Socket, Err: rmErr})
	}
	return err
}

// aside returns a new name in the folder of all sandboxes.
func (p *Provider) aside(prefix string) string { return filepath.Join(p.root(), prefix+rand.Text()) }

// rename moves a folder within the folder of all sandboxes, and undoes what an
// agent without a namespace may have done to prevent that.
func (p *Provider) rename(from, to string) error {
	err := os.Rename(from, to)
	if !forbidden(err) {
		return err
	}
	if f, oerr := os.Open(p.root()); oerr == nil {
		defer f.Close()
		_ = thaw(int(f.Fd()))
		_ = unlock(int(f.Fd()), 0o700)
		thawAt(f, filepath.Base(from))
		_ = unlockAt(f, filepath.Base(from), 0o700)
	}
	return os.Rename(from, to)
}

// destroy removes a renamed folder. One removal of it runs at a time; a second
// caller leaves it to the first.
func (p *Provider) destroy(ctx context.Context, dir string) error {
	p.mu.Lock()
	busy := p.removing[dir]
	p.removing[dir] = true
	p.mu.Unlock()
	if busy {
		return nil
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.removing, dir)
	}()
	ctx, cancel := context.WithTimeout(ctx, removePatience)
	defer cancel()
	if err := removeTree(ctx, dir); err != nil {
		return &sandbox.LeftError{Path: dir, Err: err}
	}
	return nil
}

// forget removes a sandbox whose folder can't be moved from the list.
func (p *Provider) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgotten[id] = true
}

func (p *Provider) isForgotten(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.forgotten[id]
}

// Tidy removes what ended or incomplete sandboxes left; see [sandbox.Tidier].
func (p *Provider) Tidy(ctx context.Context) error {
	entries, err := os.ReadDir(p.root())
	if err != nil {
		return fmt.Errorf("sandbox local: tidy: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if ctx.Err() == nil && p.leftover(e) {
			errs = append(errs, p.tidyOne(ctx, e.Name()))
		}
	}
	return errors.Join(errs...)
}

// leftover reports whether an entry is of a sandbox that has ended, or was left
// half-made by a process that died.
func (p *Provider) leftover(e fs.DirEntry) bool {
	if strings.HasPrefix(e.Name(), gonePrefix) || p.isForgotten(e.Name()) {
		return true
	}
	info, err := e.Info()
	if err != nil || time.Since(info.ModTime()) < stale {
		return false
	}
	if strings.HasPrefix(e.Name(), ".") {
		return true
	}
	_, err = p.open(e.Name())
	return errors.Is(err, sandbox.ErrNotFound)
}

func (p *Provider) tidyOne(ctx context.Context, name string) error {
	dir := filepath.Join(p.root(), name)
	if !strings.HasPrefix(name, ".") {
		aside := p.aside(gonePrefix + name + "-")
		if err := p.rename(dir, aside); err != nil {
			return &sandbox.LeftError{Path: dir, Err: err}
		}
		dir = aside
	}
	return p.destroy(ctx, dir)
}
