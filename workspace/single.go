package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/archive"
)

// SaveFile archives one file of a session's workspace. It replaces what was at
// the path, below it, or a file above it. It reads the manifest: for many files
// use [Open]. Errors: [archive.ErrInvalid], [archive.ErrFenced].
func SaveFile(ctx context.Context, a *archive.Archive, session string, epoch uint64, path string, mode fs.FileMode, data []byte) (File, error) {
	f := File{Path: path, Mode: mode.Perm()}
	err := change(ctx, a, session, epoch, path, func(s *Store) error {
		content, err := s.Put(ctx, bytes.NewReader(data))
		if err != nil {
			return err
		}
		f = f.WithContent(content)
		kept := slices.DeleteFunc(slices.Clone(s.files), func(o File) bool {
			return o.Path == path || strings.HasPrefix(o.Path, path+"/") || !o.Mode.IsDir() && strings.HasPrefix(path, o.Path+"/")
		})
		return s.commit(ctx, append(kept, f))
	})
	if err != nil {
		return f, fmt.Errorf("workspace: save file %q of session %s: %w", path, session, err)
	}
	return f, nil
}

// DeleteFile removes one file from a session's archived workspace; an unknown one
// is not an error. Errors: [archive.ErrInvalid], [archive.ErrFenced].
func DeleteFile(ctx context.Context, a *archive.Archive, session string, epoch uint64, path string) error {
	err := change(ctx, a, session, epoch, path, func(s *Store) error {
		return s.commit(ctx, slices.DeleteFunc(slices.Clone(s.files), func(o File) bool { return o.Path == path }))
	})
	if err != nil {
		return fmt.Errorf("workspace: delete file %q of session %s: %w", path, session, err)
	}
	return nil
}

func change(ctx context.Context, a *archive.Archive, session string, epoch uint64, path string, apply func(*Store) error) error {
	if err := archive.CheckPath(path); err != nil {
		return err
	}
	if epoch == 0 {
		return fmt.Errorf("epoch 0: %w", archive.ErrFenced)
	}
	return archive.Retry(ctx, func() error {
		s, err := Open(ctx, a, session, epoch)
		if err != nil {
			return err
		}
		return errors.Join(apply(s), s.waitUploads(ctx))
	})
}

// ReadFile returns an archived file and its content, checked;
// [archive.ErrNotFound] for an unknown one. It reads the manifest: for many files
// use [Store.Contents].
func ReadFile(ctx context.Context, a *archive.Archive, session, path string) (f File, data []byte, err error) {
	s, err := Open(ctx, a, session, 0)
	if err != nil {
		return File{}, nil, err
	}
	s.files = slices.DeleteFunc(s.files, func(f File) bool { return f.Path != path })
	err = archive.ErrNotFound
	for c, cerr := range s.Contents(ctx) {
		if f, err = c.File, cerr; err == nil && c.Body != nil {
			data, err = io.ReadAll(c.Body)
		}
	}
	if err != nil {
		return f, nil, fmt.Errorf("workspace: read file %q of session %s: %w", path, session, err)
	}
	return f, data, nil
}
