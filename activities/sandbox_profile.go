package activities

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"slices"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
)

func filesOf(files []adapters.File, base adapters.Base) iter.Seq2[sandbox.File, error] {
	return func(yield func(sandbox.File, error) bool) {
		for _, f := range files {
			if f.Base != base {
				continue
			}
			mode := fs.FileMode(f.Mode)
			if mode == 0 {
				mode = 0o644
			}
			if !yield(sandbox.File{Path: f.Path, Mode: mode, Size: int64(len(f.Data)), Body: bytes.NewReader(f.Data)}, nil) {
				return
			}
		}
	}
}

func copyProfile(ctx context.Context, sb sandbox.Sandbox, files iter.Seq2[sandbox.File, error], area sandbox.Area) error {
	if err := sb.CopyIn(ctx, area, files); err != nil {
		return fmt.Errorf("copy profile into %s: %w", area, err)
	}
	return nil
}

// installBundled runs the install commands of the profile's own MCP servers, isolated like
// the agent.
func installBundled(ctx context.Context, p adapters.Profile, sb sandbox.Sandbox, info sandbox.Info) error {
	for _, name := range slices.Sorted(maps.Keys(p.BundledMCP)) {
		argv := p.BundledMCP[name].Install
		if len(argv) == 0 {
			continue
		}
		spec := runner.RunSpec{
			Argv: argv, Env: info.Env, Dir: filepath.Join(info.Paths.Home, adapters.BundledDir(name)), Isolation: host.Isolation(info.Paths),
		}
		if err := runner.Run(ctx, sb, info.Paths.Runner, spec); err != nil {
			return fmt.Errorf("%w: install MCP server %s: %w", host.ErrProfile, name, err)
		}
	}
	return nil
}
