package workspace

import (
	"context"
	"fmt"
)

// Copy makes the files of another store the archived workspace, with their contents, but for those
// that could not be restored ([File.Held]). Errors: those of Put, Commit and Contents.
func (s *Store) Copy(ctx context.Context, from *Store) error {
	var all []File
	for f, err := range from.Contents(ctx) {
		if err != nil {
			return err
		}
		if f.Held {
			continue
		}
		if f.Body != nil {
			stored, err := s.Put(ctx, f.Body)
			if err != nil {
				return fmt.Errorf("file %q: %w", f.Path, err)
			}
			f.File = f.WithContent(stored)
		}
		all = append(all, f.File)
	}
	return s.Commit(ctx, all)
}
