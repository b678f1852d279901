package codex

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
)

// Prepare continues with the native session if its rollout is in the home. If
// there is none, the first line of one is written under the chosen id: the
// program takes that for a session without messages, and there is no other way to
// choose an id. An index that can't be used is set aside.
func (a *Adapter) Prepare(home adapters.Home, l adapters.Launch) (adapters.Preparation, error) {
	if l.NativeID == "" {
		return adapters.Preparation{}, nil
	}
	found, err := a.Transcripts(home, l)
	if err != nil {
		return adapters.Preparation{}, err
	}
	prepared := adapters.Preparation{NativeID: l.NativeID}
	if prepared.Move, prepared.Note, err = brokenIndex(home); err != nil {
		return prepared, err
	}
	if len(found) == 0 {
		prepared.Write = append(prepared.Write, firstLine(l, time.Now().UTC()))
	}
	return prepared, nil
}

// firstLine returns a rollout of a session without a prompt.
func firstLine(l adapters.Launch, now time.Time) adapters.Repair {
	stamp := now.Format("2006-01-02T15:04:05.000Z")
	meta := map[string]any{
		"session_id": l.NativeID, "id": l.NativeID, "timestamp": stamp, "cwd": l.Workspace,
		"originator": "sojourn", "cli_version": "0.0.0", "source": "vscode", "history_mode": "paginated",
	}
	if inTeams(l.Model) {
		meta["multi_agent_version"] = "v2"
	}
	line := object(map[string]any{"timestamp": stamp, "ordinal": 0, "type": lineMeta, "payload": meta})
	name := rolloutPrefix + now.Format("2006-01-02T15-04-05") + "-" + l.NativeID + rolloutSuffix
	return adapters.Repair{Path: path.Join(sessionsDir, now.Format("2006/01/02"), name), Add: append(line, '\n')}
}

// teamModels are the prefixes of the program's own models whose subagents are a
// team: they have names and write to each other. A new session's file must
// contain that: without it such a model gets no subagents at all, and with it
// other models get some that their servers may not understand.
var teamModels = []string{"gpt-6", "gpt-5.6-sol", "gpt-5.6-terra", "gpt-daybreak-"}

// inTeams reports whether a model is one of them; the program's default is.
func inTeams(model string) bool {
	return model == "" || slices.ContainsFunc(teamModels, func(name string) bool { return strings.HasPrefix(model, name) })
}
