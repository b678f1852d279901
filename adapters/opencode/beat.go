package opencode

import (
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
)

var _ adapters.Beating = (*Adapter)(nil)

// Beats implements [adapters.Beating]: the server's event stream says every few
// seconds that it stands, whatever the agent does.
func (*Adapter) Beats(line string) bool {
	return len(line) < 1<<10 && strings.Contains(line, `"type":"server.heartbeat"`)
}
