package claude

import (
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
)

var _ adapters.Beating = (*Adapter)(nil)

// Beats implements [adapters.Beating].
func (*Adapter) Beats(line string) bool {
	return len(line) < 1<<10 && strings.HasPrefix(line, `{"type":"keep_alive"`)
}
