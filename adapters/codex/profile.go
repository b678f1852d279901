package codex

import "github.com/sojourn-run/sojourn/adapters"

// ProfileFiles is written next.
func (*Adapter) ProfileFiles(p adapters.Profile, l adapters.Launch) ([]adapters.File, error) {
	return nil, nil
}
