package claude

import (
	"path"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
)

// instructionFiles are the workspace's own instructions.
var instructionFiles = []string{"CLAUDE.md", configDir + "/CLAUDE.md", "CLAUDE.local.md"}

// rulesFile is where they are imported, among the agent's own rules.
const rulesFile = "workspace-instructions.md"

// workspaceRules imports the workspace's instructions among the user's, for an agent that has
// to ask: it reads no other file of the workspace by itself. For one that runs everything it is
// empty.
func workspaceRules(l adapters.Launch) adapters.Repair {
	rules := adapters.Repair{Path: path.Join(configDir, "rules", rulesFile)}
	if !l.Permission.Asks() {
		return rules
	}
	for _, name := range instructionFiles {
		file := strings.ReplaceAll(path.Join(l.Workspace, name), " ", `\ `)
		rules.Add = append(rules.Add, "@"+file+"\n"...)
	}
	return rules
}
