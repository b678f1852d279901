package archive

import (
	"context"
	"fmt"
	"strings"
)

// profileSuffix ends the key of a profile: each is one object, so that a reader never meets half
// of a change.
const profileSuffix = ".json"

func (a *Archive) profileKey(id string) string { return a.profilesKey() + id + profileSuffix }

// Profiles returns the ids of the agent profiles in the archive, in order.
func (a *Archive) Profiles(ctx context.Context) (ids []string, err error) {
	for name, err := range a.list(ctx, a.profilesKey(), "", false) {
		if err != nil {
			return nil, fmt.Errorf("archive: profiles: %w", err)
		}
		if id, is := strings.CutSuffix(name, profileSuffix); is && checkSession(id) == nil {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Profile returns a profile as it was saved. Errors: [ErrNotFound], [ErrInvalid].
func (a *Archive) Profile(ctx context.Context, id string) ([]byte, error) {
	err := checkProfile(id)
	var data []byte
	if err == nil {
		data, _, err = a.get(ctx, a.profileKey(id))
	}
	if err != nil {
		return nil, fmt.Errorf("archive: profile %s: %w", id, err)
	}
	return data, nil
}

// SaveProfile saves a profile, in place of any of its id. Errors: [ErrInvalid].
func (a *Archive) SaveProfile(ctx context.Context, id string, data []byte) error {
	err := checkProfile(id)
	if err == nil {
		err = a.put(ctx, a.profileKey(id), data)
	}
	if err != nil {
		return fmt.Errorf("archive: save profile %s: %w", id, err)
	}
	return nil
}

// DeleteProfile deletes a profile; an unknown one is no error. Errors: [ErrInvalid].
func (a *Archive) DeleteProfile(ctx context.Context, id string) error {
	err := checkProfile(id)
	if err == nil {
		err = a.remove(ctx, a.profileKey(id))
	}
	if err != nil {
		return fmt.Errorf("archive: delete profile %s: %w", id, err)
	}
	return nil
}

func checkProfile(id string) error {
	if checkSession(id) != nil {
		return fmt.Errorf("%w profile id %q: want 1 to 64 of A-Z a-z 0-9 _ -", ErrInvalid, id)
	}
	return nil
}
