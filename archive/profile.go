package archive

import (
	"context"
	"fmt"
	"strings"
)

// Limits of a profile, which is held in memory.
const (
	maxProfileFiles = 2000
	maxProfileBytes = 64 << 20
)

// Profiles returns the ids of the agent profiles in the store, in order.
func (a *Archive) Profiles(ctx context.Context) (ids []string, err error) {
	for folder, err := range a.list(ctx, a.profilesKey(), "", true) {
		if err != nil {
			return nil, fmt.Errorf("archive: profiles: %w", err)
		}
		if id := strings.TrimSuffix(folder, "/"); checkSession(id) == nil {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Profile reads a profile's files by their paths in its folder; [ErrNotFound] for
// an unknown id. The profile loader interprets them. Paths are checked as by
// [CheckPath].
func (a *Archive) Profile(ctx context.Context, id string) (map[string][]byte, error) {
	files, err := a.profile(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("archive: profile %s: %w", id, err)
	}
	return files, nil
}

func (a *Archive) profile(ctx context.Context, id string) (map[string][]byte, error) {
	if err := checkProfile(id); err != nil {
		return nil, err
	}
	folder, files, total := a.profilesKey()+id+"/", map[string][]byte{}, 0
	for path, err := range a.list(ctx, folder, "", false) {
		if err != nil {
			return nil, err
		}
		if path == "" || strings.HasSuffix(path, "/") {
			continue // a folder that some tool made
		}
		if err := CheckPath(path); err != nil {
			return nil, err
		}
		data, _, err := a.get(ctx, folder+path)
		if err != nil {
			return nil, err
		}
		files[path] = data
		if total += len(data); total > maxProfileBytes || len(files) > maxProfileFiles {
			return nil, fmt.Errorf("%w size: a profile has at most %d files and %d bytes", ErrInvalid, maxProfileFiles, maxProfileBytes)
		}
	}
	if len(files) == 0 {
		return nil, ErrNotFound
	}
	return files, nil
}

func checkProfile(id string) error {
	if checkSession(id) != nil {
		return fmt.Errorf("%w profile id %q: want 1 to 64 of A-Z a-z 0-9 _ -", ErrInvalid, id)
	}
	return nil
}

// SaveProfile writes a profile's files, and then deletes those of the same id
// that are not among them.
func (a *Archive) SaveProfile(ctx context.Context, id string, files map[string][]byte) error {
	if err := a.saveProfile(ctx, id, files); err != nil {
		return fmt.Errorf("archive: save profile %s: %w", id, err)
	}
	return nil
}

func (a *Archive) saveProfile(ctx context.Context, id string, files map[string][]byte) error {
	if err := checkProfile(id); err != nil {
		return err
	}
	folder := a.profilesKey() + id + "/"
	for path, data := range files {
		if err := CheckPath(path); err != nil {
			return err
		}
		if err := a.put(ctx, folder+path, data); err != nil {
			return err
		}
	}
	var dead []string
	for path, err := range a.list(ctx, folder, "", false) {
		if err != nil {
			return err
		}
		if _, stays := files[path]; !stays {
			dead = append(dead, folder+path)
		}
	}
	return a.remove(ctx, dead...)
}
