package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/session"
)

// checkProfile refuses a profile that is not in the store of profiles, so that
// no session is made that must fail at its first turn.
func (c *cli) checkProfile(ctx context.Context, id string) error {
	if err := session.ValidateID("profile", id); err != nil {
		return err
	}
	store := c.env.get("SOJOURN_PROFILES")
	if store == "" || strings.HasPrefix(store, "s3://") {
		return c.checkArchivedProfile(ctx, store, id)
	}
	info, err := os.Stat(filepath.Join(store, id))
	if err != nil || !info.IsDir() {
		return session.Invalid("profile", fmt.Sprintf("%q is not in %s", id, store), "the name of a folder in SOJOURN_PROFILES")
	}
	return nil
}

func (c *cli) checkArchivedProfile(ctx context.Context, store, id string) error {
	a, err := c.profileArchive(ctx, store)
	if err != nil {
		return err
	}
	_, err = a.Profile(ctx, id)
	if errors.Is(err, archive.ErrNotFound) {
		return session.Invalid("profile", fmt.Sprintf("%q is unknown", id), "a profile of the archive, or SOJOURN_PROFILES naming a folder that has it")
	}
	return err
}

func (c *cli) profileArchive(ctx context.Context, store string) (*archive.Archive, error) {
	if store == "" {
		return c.archive(ctx)
	}
	u, err := url.Parse(store)
	if err != nil || u.Host == "" {
		return nil, session.Invalid("SOJOURN_PROFILES", fmt.Sprintf("%q is no S3 address", store), "a folder, or s3://BUCKET/PREFIX")
	}
	o, err := c.temporalOptions()
	if err != nil {
		return nil, err
	}
	return archive.Open(ctx, archive.Options{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"), Namespace: o.Namespace})
}
