package claude

import "github.com/sojourn-run/sojourn/adapters"

const mcpFile = "sojourn-mcp.json"

func (*Adapter) ProfileFiles(adapters.Profile, adapters.Launch) ([]adapters.File, error) {
	return nil, nil
}
