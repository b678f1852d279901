// Package profiles keeps agent profiles in a folder: what a team gives its
// agents beside the prompt, one folder per profile.
//
//	<dir>/<id>/profile.json          name, description, model, permission, permissions, permissionDeadline; optional
//	<dir>/<id>/instructions.md
//	<dir>/<id>/rules/<name>.md
//	<dir>/<id>/skills/<name>/SKILL.md, and any files beside it
//	<dir>/<id>/agents/<name>.md
//	<dir>/<id>/commands/<name>.md
//	<dir>/<id>/mcp.json              {"mcpServers": {…}}
//	<dir>/<id>/mcp/<name>/server.json  {"start": […], "install": […], "env": {…}}, with the server's files
//	<dir>/<id>/workspace/…           files that a fresh workspace starts with
//	<dir>/<id>/plugins/<name>/…      rules, skills, agents, commands, mcp.json, mcp
//
// The field permissions has the rules of package permission, asked in order before
// permission, the standing answer:
//
//	{"permission": "ask", "permissions": [
//	  {"tool": "*", "match": "git push*", "answer": "deny", "reason": "people push"},
//	  {"tool": "Bash", "match": "git *", "answer": "allow"}],
//	 "permissionDeadline": {"afterMs": 1800000, "answer": "deny"}}
//
// The deadline answers what no person has answered in time; without one a request
// waits for ever.
//
// A plugin is a folder of parts that were made together, as Claude Code has them. They
// become the profile's, for every agent; a name that is taken is an error, and so
// is a part that only one agent has, such as hooks.
//
// A [Store] reads them anew each time, so a changed file counts from the next
// session on:
//
//	store, err := profiles.Open(dir, profiles.Options{})
//	p, err := store.Load(ctx, "reviewer")   // errors.Is(err, profiles.ErrNotFound)
//
// Values "${NAME}" in the environment and headers of MCP servers stay as they
// are until [Resolve] fills them in, when a sandbox is made: what is stored,
// listed and recorded never holds a secret. Names that open the house to an
// agent are refused; see [sandbox.CheckVariable].
package profiles
