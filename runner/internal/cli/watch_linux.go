package cli

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/watch"
)

// watchFolder prints the changes in a folder until stdin ends, so that it does
// not outlive its reader.
func watchFolder(ctx context.Context, args []string, std io3) error {
	fs := flag.NewFlagSet("watch", flag.ContinueOnError)
	dir := fs.String("dir", "", "")
	ignore := fs.String("ignore", "", "")
	since := fs.Int64("since", 0, "")
	if err := parse(fs, args, "dir"); err != nil {
		return err
	}
	o := watch.Options{Dir: *dir}
	if *ignore != "" {
		o.Ignore = strings.Split(*ignore, ",")
	}
	if *since != 0 {
		o.Since = time.Unix(0, *since)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		// This ends with the process at the latest: reading stdin cannot be
		// interrupted.
		_, _ = io.Copy(io.Discard, std.in)
		cancel()
	}()
	lines := json.NewEncoder(std.out)
	return watch.Run(ctx, o, func(c runner.FileChange) error {
		if err := lines.Encode(c); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		return nil
	})
}
