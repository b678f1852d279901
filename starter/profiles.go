package starter

import (
	"context"
	"errors"
	"fmt"

	"github.com/sojourn-run/sojourn/adapters/profiles"
	"github.com/sojourn-run/sojourn/session"
)

// checkProfile refuses a profile that is not in the store of profiles, so that no
// session is created that must fail at its first turn.
func (c *cli) checkProfile(ctx context.Context, id string) error {
	if err := session.ValidateID("profile", id); err != nil {
		return err
	}
	dir := c.env.Get("SOJOURN_PROFILES")
	if dir == "" {
		return session.Invalid("profile", fmt.Sprintf("%q is unknown: SOJOURN_PROFILES is not set", id), "a folder's name in SOJOURN_PROFILES")
	}
	store, err := profiles.Open(dir, profiles.Options{})
	if err != nil {
		return failed("SOJOURN_PROFILES names a folder with a folder per profile", "%s", err)
	}
	_, err = store.Load(ctx, id)
	if errors.Is(err, profiles.ErrNotFound) {
		return session.Invalid("profile", fmt.Sprintf("%q is not in %s", id, dir), "a folder's name in SOJOURN_PROFILES")
	}
	if err != nil {
		return failed("correct the profile's files", "%s", err)
	}
	return nil
}
