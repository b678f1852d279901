// Package profilestore is where workers and the command line read agent profiles from: a folder of
// each host, or the archive that all hosts share.
package profilestore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/profiles"
	"github.com/sojourn-run/sojourn/archive"
)

// InArchive is the setting SOJOURN_PROFILES for profiles in the archive; any other is a folder.
const InArchive = "archive:"

// Store has profiles. It reads them each time: a changed profile applies from the next sandbox on.
// Safe for concurrent use.
type Store interface {
	// List returns all profiles, by id. The first broken one is an error that names it.
	List(ctx context.Context) ([]adapters.Profile, error)
	// Load returns a profile, valid and with its ${NAME}s as they were written. An unknown one is
	// [profiles.ErrNotFound].
	Load(ctx context.Context, id string) (adapters.Profile, error)
}

// Open returns the store that a setting names. The archive is opened if it is that one.
func Open(setting string, open func() (*archive.Archive, error)) (Store, error) {
	if setting != InArchive {
		return profiles.Open(setting, profiles.Options{})
	}
	a, err := open()
	if err != nil {
		return nil, fmt.Errorf("open profiles: %w", err)
	}
	return Archived{a}, nil
}

// Archived has the profiles that are in an archive, as JSON.
type Archived struct{ *archive.Archive }

// List implements [Store].
func (a Archived) List(ctx context.Context) ([]adapters.Profile, error) {
	ids, err := a.Profiles(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]adapters.Profile, 0, len(ids))
	for _, id := range ids {
		p, err := a.Load(ctx, id)
		if errors.Is(err, profiles.ErrNotFound) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// Load implements [Store]. A field that this build does not know is an error: it may be a
// restriction.
func (a Archived) Load(ctx context.Context, id string) (adapters.Profile, error) {
	data, err := a.Profile(ctx, id)
	if errors.Is(err, archive.ErrNotFound) || errors.Is(err, archive.ErrInvalid) {
		return adapters.Profile{}, fmt.Errorf("profile %q: %w in the archive", id, profiles.ErrNotFound)
	}
	if err != nil {
		return adapters.Profile{}, err
	}
	var p adapters.Profile
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return adapters.Profile{}, fmt.Errorf("profile %q in the archive: %w", id, err)
	}
	p.ID = id
	if err := profiles.Check(p); err != nil {
		return adapters.Profile{}, fmt.Errorf("profile %q in the archive: %w", id, err)
	}
	return p, nil
}

// Save saves a valid profile under its id, in place of any of that id.
func (a Archived) Save(ctx context.Context, p adapters.Profile) error {
	if err := profiles.Check(p); err != nil {
		return fmt.Errorf("profile %q: %w", p.ID, err)
	}
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("profile %q: %w", p.ID, err)
	}
	return a.SaveProfile(ctx, p.ID, data)
}

// Delete deletes a profile; an unknown one is [profiles.ErrNotFound].
func (a Archived) Delete(ctx context.Context, id string) error {
	if _, err := a.Load(ctx, id); errors.Is(err, profiles.ErrNotFound) {
		return err
	}
	return a.DeleteProfile(ctx, id)
}
