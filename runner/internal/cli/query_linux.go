package cli

import (
	"context"
	"flag"

	"github.com/sojourn-run/sojourn/runner/internal/query"
)

// queryDatabase answers queries until stdin ends.
func queryDatabase(ctx context.Context, args []string, std io3) error {
	fs := flag.NewFlagSet("query", flag.ContinueOnError)
	database := fs.String("database", "", "")
	if err := parse(fs, args, "database"); err != nil {
		return err
	}
	return query.Serve(ctx, *database, std.in, std.out)
}
