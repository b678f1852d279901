package starter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/workspace"
)

func (c *cli) filesCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "files ID",
		Short: "List the files of a session's workspace, or copy them here",
		Long: `List the files of a session's workspace as they were archived at the end of the last turn, or copy them into a folder.
Neither the worker nor the sandbox is asked. A session of --workspace has its files in that folder of its host, and none here.`,
		Example: "  sojourn files $ID\n  sojourn files $ID -o ./result",
		Args:    wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("out") {
				return c.copyFiles(cmd.Context(), args[0], out)
			}
			return c.listFiles(cmd.Context(), args[0])
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "copy the files into the folder `DIR`, which is made, or must be empty")
	return cmd
}

// workspaceOf reads the manifest of a session's archived workspace.
func (c *cli) workspaceOf(ctx context.Context, id string) (*workspace.Store, error) {
	if err := session.ValidateID("id", id); err != nil {
		return nil, err
	}
	store, err := c.archiveAnswers(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := store.Session(ctx, id); err != nil {
		return nil, err
	}
	w, err := workspace.Open(ctx, store, id, 0)
	if err == nil && !w.Known() {
		return nil, failed("files are archived when a turn ends; those of a --workspace folder stay there", "session %s has no archived files", id)
	}
	return w, err
}

// listed is a line of the list, as JSON.
type listed struct {
	Path    string `json:"path"`
	Mode    string `json:"mode"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256,omitempty"`
	ModTime string `json:"modTime,omitempty"`
	Link    string `json:"link,omitempty"`
}

func (c *cli) listFiles(ctx context.Context, id string) error {
	w, err := c.workspaceOf(ctx, id)
	if err != nil {
		return err
	}
	list := make([]listed, 0, len(w.Files()))
	for _, f := range w.Files() {
		l := listed{Path: f.Path, Mode: f.Mode.String(), Size: f.Size, SHA256: f.SHA256, Link: f.Link}
		if !f.ModTime.IsZero() {
			l.ModTime = f.ModTime.UTC().Format("2006-01-02T15:04:05.999Z07:00")
		}
		list = append(list, l)
	}
	if c.json {
		return c.printJSON(list)
	}
	for _, l := range list {
		name := printableName(l.Path)
		if l.Link != "" {
			name += " → " + printableName(l.Link)
		}
		if _, err := fmt.Fprintf(c.stdout, "%s %12d  %s\n", l.Mode, l.Size, name); err != nil {
			return err
		}
	}
	return nil
}

// printableName quotes a name with characters that a terminal would act on: an
// agent chose it.
func printableName(name string) string {
	if q := strconv.Quote(name); q[1:len(q)-1] != name {
		return q
	}
	return name
}

// copied is the result of a copy, as JSON.
type copied struct {
	SessionID string `json:"sessionId"`
	Dir       string `json:"dir"`
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes"`
	// Skipped are links that lead outside.
	Skipped []string `json:"skipped,omitempty"`
}

func (c *cli) copyFiles(ctx context.Context, id, dir string) error {
	w, err := c.workspaceOf(ctx, id)
	if err != nil {
		return err
	}
	root, err := emptyFolder(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	done := copied{SessionID: id, Dir: dir}
	err = done.all(root, w.Contents(ctx))
	if err != nil && !errors.Is(err, archive.ErrCorrupt) {
		return fmt.Errorf("copy the files of session %s to %s: %w", id, dir, err)
	}
	// The good part is copied, and said before the error.
	return errors.Join(c.printCopied(done), err)
}

func (c *cli) printCopied(done copied) error {
	if c.json {
		return c.printJSON(done)
	}
	for _, name := range done.Skipped {
		fmt.Fprintf(c.stderr, "sojourn: %s is left out: it leads outside\n", printableName(name))
	}
	_, err := fmt.Fprintf(c.stdout, "%d files, %d bytes, in %s\n", done.Files, done.Bytes, done.Dir)
	return err
}

// emptyFolder opens a folder that it makes, or that exists and is empty: a copy
// must not mix with other files.
func emptyFolder(dir string) (*os.Root, error) {
	const hint = "-o wants a folder that is empty or not there yet"
	if dir == "" {
		return nil, usage(hint, "--out: is empty")
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, usage(hint, "--out: %s", plainPathError(err))
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, usage(hint, "--out: %s", plainPathError(err))
	}
	if len(entries) > 0 {
		return nil, usage(hint, "--out: %s is not empty", dir)
	}
	return os.OpenRoot(dir)
}

// all writes the entries below root. A damaged one is left out and named in the
// error, and keeps no other from being written.
func (d *copied) all(root *os.Root, entries iter.Seq2[workspace.Content, error]) (damaged error) {
	for f, err := range entries {
		if err == nil {
			err = d.take(root, f)
		}
		if err != nil && !errors.Is(err, archive.ErrCorrupt) {
			return err
		}
		damaged = errors.Join(damaged, err)
	}
	return damaged
}

// take writes one entry below root, which nothing leaves.
func (d *copied) take(root *os.Root, f workspace.Content) error {
	if parent := path.Dir(f.Path); parent != "." {
		if err := root.MkdirAll(parent, 0o777); err != nil {
			return err
		}
	}
	switch {
	case f.Mode.IsDir():
		return root.MkdirAll(f.Path, 0o777)
	case f.Mode.Type() == fs.ModeSymlink && !sandbox.LinkStays(f.Path, f.Link):
		d.Skipped = append(d.Skipped, f.Path)
		return nil
	case f.Mode.Type() == fs.ModeSymlink:
		d.Files++
		return root.Symlink(f.Link, f.Path)
	}
	n, err := copyContent(root, f)
	if err == nil {
		d.Files, d.Bytes = d.Files+1, d.Bytes+n
	}
	return err
}

// copyContent writes the content; its mode is the archived one, as far as the
// umask allows.
func copyContent(root *os.Root, f workspace.Content) (n int64, err error) {
	file, err := root.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.Mode.Perm()|0o600)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			// Half a file must not be taken for a whole one.
			err = errors.Join(err, root.Remove(f.Path))
		}
	}()
	if f.Body == nil {
		return 0, nil
	}
	return io.Copy(file, f.Body)
}
