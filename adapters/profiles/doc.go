// Package profiles reads agent profiles from a folder: what a team gives its
// agents beside the prompt, one folder per profile.
//
//	<dir>/<id>/profile.json          name, description, model, permission, permissions, permissionDeadline, unknownEffects; optional
//	<dir>/<id>/instructions.md
//	<dir>/<id>/rules/<name>.md
//	<dir>/<id>/skills/<name>/SKILL.md, and any files beside it
//	<dir>/<id>/agents/<name>.md
//	<dir>/<id>/commands/<name>.md
//	<dir>/<id>/mcp.json              {"mcpServers": {…}}
//	<dir>/<id>/mcp/<name>/server.json  {"start": […], "install": […], "env": {…}}, with the server's files
//	<dir>/<id>/workspace/…           the initial files of a fresh workspace
//	<dir>/<id>/plugins/<name>/…      rules, skills, agents, commands, mcp.json, mcp
//
// The field permissions has the rules of package permission, tried in order
// before permission, the default answer:
//
//	{"permission": "ask", "permissions": [
//	  {"tool": "*", "match": "git push*", "answer": "deny", "reason": "people push"},
//	  {"tool": "Bash", "match": "git *", "answer": "allow"}],
//	 "permissionDeadline": {"afterMs": 1800000, "answer": "deny"}}
//
// The deadline answers what no person has answered in time; without one a request
// waits for ever.
//
// The field unknownEffects has rules for calls that had begun when their host or runner
// was lost and that have no result: continue (the agent is told; so it is without a
// rule), ask (a person, by a permission request) or fail:
//
//	{"unknownEffects": [{"tool": "Bash", "match": "make deploy*", "then": "ask"}]}
//
// The first rule that matches a call decides for it, and the strictest of the calls'
// verdicts for the turn.
//
// A plugin is a folder of parts that were made together, as Claude Code has them. They
// become the profile's, for every agent; a name that is taken is an error, and so
// is a part that only one agent has, such as hooks.
//
// A [Store] reads them each time, so a changed file applies from the next session
// on:
//
//	store, err := profiles.Open(dir, profiles.Options{})
//	p, err := store.Load(ctx, "reviewer")   // errors.Is(err, profiles.ErrNotFound)
//
// Values "${NAME}" in the environment and headers of MCP servers are kept until
// [Resolve] fills them in, when a sandbox is made: what is stored, listed and
// recorded never holds a secret. Names of the operator's own secrets are refused;
// see [sandbox.CheckVariable].
package profiles
