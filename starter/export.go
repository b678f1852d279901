package starter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/session"
)

func (c *cli) exportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "export ID",
		Short: "Write all that is archived of a session as one tar file",
		Long: `Write all that is archived of a session as one tar file: session.json (what it is), conversation.json (the state, as show --json prints it),
home/ (the agent's own transcripts, byte for byte; sojourn parse reads the folder) and workspace/ (its files). Neither the worker
nor the sandbox is asked. What is damaged in the archive is filled with zeros and named in damage.json; the exit code is 1 then.`,
		Example: "  sojourn export $ID -o session.tar\n  sojourn export $ID | zstd > session.tar.zst",
		Args:    wants,
		RunE:    func(cmd *cobra.Command, args []string) error { return c.export(cmd.Context(), args[0], out) },
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "write `FILE`, which must not be there (default: standard output)")
	return cmd
}

func (c *cli) export(ctx context.Context, id, out string) error {
	if _, is := terminal(c.stdout); is && out == "" {
		return usage("sojourn export ID -o FILE writes a file", "a tar file is nothing for a terminal")
	}
	sc, err := c.client(ctx, needArchiveNow)
	if err != nil {
		return err
	}
	stop := c.patience("still reading what is archived of session %s", id)
	defer stop()
	if out == "" {
		return sc.Export(ctx, id, c.stdout)
	}
	size, err := exportTo(ctx, sc, id, out)
	if damaged, ok := errors.AsType[*session.DamagedError](err); ok {
		return failed(out+" has all the rest, and which they are in damage.json", "export session %s: %s", id, damaged)
	}
	if err != nil {
		return err
	}
	return c.done(id, fmt.Sprintf("is in %s, %d bytes", out, size), struct {
		SessionID string `json:"sessionId"`
		File      string `json:"file"`
		Bytes     int64  `json:"bytes"`
	}{id, out, size})
}

// exportTo writes a file that exists only when it is complete, but for what is damaged in the
// archive.
func exportTo(ctx context.Context, sc *session.Client, id, out string) (size int64, err error) {
	f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, usage("--out wants a file that is not there yet", "--out: %s", plainPathError(err))
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if _, complete := errors.AsType[*session.DamagedError](err); err != nil && !complete {
			_ = os.Remove(out) // the earlier error matters
		}
	}()
	if err := sc.Export(ctx, id, f); err != nil {
		return 0, err
	}
	return f.Seek(0, io.SeekCurrent)
}
