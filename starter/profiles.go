package starter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/profiles"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/session/profilestore"
)

const wantsProfiles = "SOJOURN_PROFILES names a folder with a folder per profile, or is " + profilestore.InArchive

// profileStore opens what SOJOURN_PROFILES names; nil if it is not set.
func (c *cli) profileStore(ctx context.Context) (profilestore.Store, error) {
	setting := c.env.Get("SOJOURN_PROFILES")
	if setting == "" {
		return nil, nil
	}
	store, err := profilestore.Open(setting, func() (*archive.Archive, error) { return c.archiveAnswers(ctx) })
	if err != nil {
		return nil, failed(wantsProfiles, "%s", err)
	}
	return store, nil
}

// checkProfile refuses a profile that is not in the store of profiles, so that no
// session is created that must fail at its first turn.
func (c *cli) checkProfile(ctx context.Context, id string) error {
	if err := session.ValidateID("profile", id); err != nil {
		return err
	}
	store, err := c.profileStore(ctx)
	if err != nil {
		return err
	}
	if store == nil {
		return session.Invalid("profile", fmt.Sprintf("%q is unknown: SOJOURN_PROFILES is not set", id), "a folder's name in SOJOURN_PROFILES")
	}
	_, err = store.Load(ctx, id)
	if errors.Is(err, profiles.ErrNotFound) {
		return session.Invalid("profile", fmt.Sprintf("%q is not in %s", id, c.env.Get("SOJOURN_PROFILES")), "the id of a profile there; sojourn profile ls has them")
	}
	if err != nil {
		return failed("correct the profile's files", "%s", err)
	}
	return nil
}

func (c *cli) profileCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile COMMAND",
		Short: "List agent profiles, and share them with all hosts by the archive",
		Long: `List agent profiles, and share them with all hosts by the archive.
Workers and this program read profiles from a folder that SOJOURN_PROFILES names; with SOJOURN_PROFILES=` + profilestore.InArchive + ` they read them from the archive.`,
		Example: "  sojourn profile push ./profiles/reviewer\n  SOJOURN_PROFILES=" + profilestore.InArchive + " sojourn new --agent claude --profile reviewer",
		Args:    unknownCommand,
		RunE:    noCommand,
	}
	cmd.AddCommand(&cobra.Command{
		Use: "ls", Short: "List the profiles that SOJOURN_PROFILES names", Args: wants,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.listProfiles(cmd.Context()) },
	}, &cobra.Command{
		Use: "push FOLDER", Short: "Save the profile in a folder to the archive, in place of any of its name", Args: wants,
		RunE: func(cmd *cobra.Command, args []string) error { return c.pushProfile(cmd.Context(), args[0]) },
	}, &cobra.Command{
		Use: "delete PROFILE", Short: "Delete a profile from the archive; sandboxes that have it keep it", Args: wants,
		RunE: func(cmd *cobra.Command, args []string) error { return c.deleteProfile(cmd.Context(), args[0]) },
	})
	return cmd
}

// listedProfile is a line of profile ls, as JSON.
type listedProfile struct {
	ID          string         `json:"id"`
	Name        string         `json:"name,omitempty"`
	Description string         `json:"description,omitempty"`
	Model       string         `json:"model,omitempty"`
	Parts       adapters.Parts `json:"parts"`
}

func (c *cli) listProfiles(ctx context.Context) error {
	store, err := c.profileStore(ctx)
	if err != nil {
		return err
	}
	if store == nil {
		return failed(wantsProfiles, "SOJOURN_PROFILES is not set")
	}
	found, err := store.List(ctx)
	if err != nil {
		return err
	}
	list := make([]listedProfile, 0, len(found))
	for _, p := range found {
		list = append(list, listedProfile{p.ID, p.Name, p.Description, p.Model, p.Parts()})
	}
	if c.json {
		return c.printJSON(list)
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	for _, p := range list {
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\n", p.ID, oneLine(cmp.Or(p.Description, p.Name)), oneLine(partsLine(p.Parts))); err != nil {
			return err
		}
	}
	return w.Flush()
}

func (c *cli) pushProfile(ctx context.Context, folder string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	store, err := profiles.Open(filepath.Dir(folder), profiles.Options{})
	if err != nil {
		return err
	}
	p, err := store.Load(ctx, filepath.Base(folder))
	if errors.Is(err, profiles.ErrNotFound) {
		return failed("push wants a profile's folder, whose name is its id: 1 to 64 of A-Z a-z 0-9 _ -", "%s", err)
	}
	if err != nil {
		return failed("correct the profile's files", "%s", err)
	}
	shared, err := c.archiveAnswers(ctx)
	if err != nil {
		return err
	}
	if err := (profilestore.Archived{Archive: shared}).Save(ctx, p); err != nil {
		return err
	}
	if c.json {
		return c.printJSON(listedProfile{p.ID, p.Name, p.Description, p.Model, p.Parts()})
	}
	return writeLine(c.stdout, "profile "+p.ID+" is in the archive"+suffix(": ", partsLine(p.Parts())))
}

func (c *cli) deleteProfile(ctx context.Context, id string) error {
	shared, err := c.archiveAnswers(ctx)
	if err != nil {
		return err
	}
	if err := (profilestore.Archived{Archive: shared}).Delete(ctx, id); err != nil {
		return err
	}
	if c.json {
		return c.printJSON(map[string]string{"profile": id})
	}
	return writeLine(c.stdout, "profile "+id+" is deleted")
}
