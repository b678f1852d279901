package opencode

import (
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
)

var _ adapters.Beating = (*Adapter)(nil)

// Beats implements [adapters.Beating]: the server's event stream sends a sign of
// life every few seconds, whatever the agent does.
func (*Adapter) Beats(line string) bool {
	return len(line) < 1<<10 && strings.Contains(line, `"type":"server.heartbeat"`)
}
