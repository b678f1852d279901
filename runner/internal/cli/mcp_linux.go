package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/sojourn-run/sojourn/runner/internal/mcp"
)

// offerTools serves an agent until its end of stdin is closed.
func offerTools(ctx context.Context, args []string, _ io3) error {
	fs := flag.NewFlagSet("mcp", flag.ContinueOnError)
	socket, programs, noAgents := fs.String("socket", "", ""), fs.String("tools", "", ""), fs.Bool("no-agents", false, "")
	if err := parse(fs, args, "socket"); err != nil {
		return err
	}
	offer := mcp.Offer{Agents: !*noAgents}
	if *programs != "" {
		data, err := base64.RawURLEncoding.DecodeString(*programs)
		if err == nil {
			err = json.Unmarshal(data, &offer.Programs)
		}
		if err != nil {
			return fmt.Errorf("%w: --tools: %w", errUsage, err)
		}
	}
	return mcp.Serve(ctx, *socket, offer, os.Stdin, os.Stdout)
}
