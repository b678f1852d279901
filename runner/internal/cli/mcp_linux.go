package cli

import (
	"context"
	"flag"
	"os"

	"github.com/sojourn-run/sojourn/runner/internal/mcp"
)

// offerTools serves an agent until its end of stdin is closed.
func offerTools(ctx context.Context, args []string, _ io3) error {
	fs := flag.NewFlagSet("mcp", flag.ContinueOnError)
	socket := fs.String("socket", "", "")
	if err := parse(fs, args, "socket"); err != nil {
		return err
	}
	return mcp.Serve(ctx, *socket, os.Stdin, os.Stdout)
}
