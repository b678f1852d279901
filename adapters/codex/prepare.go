package codex

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
)

// Prepare continues with the native session if its rollout is in the home. If
// there is none, the first line of one is written under the chosen id: the
// program takes that for a session without messages, and there is no other way to
// choose an id.
func (a *Adapter) Prepare(home adapters.Home, l adapters.Launch) (adapters.Preparation, error) {
	if l.NativeID == "" {
		return adapters.Preparation{}, nil
	}
	found, err := a.Transcripts(home, l)
	if err != nil {
		return adapters.Preparation{}, err
	}
	prepared := adapters.Preparation{NativeID: l.NativeID}
	if len(found) == 0 {
		prepared.Write = append(prepared.Write, firstLine(l, time.Now().UTC()))
		return prepared, nil
	}
	for _, t := range found {
		if err := repair(home, t.Path, &prepared); err != nil {
			return adapters.Preparation{}, err
		}
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

// repair moves a torn last line to another file: the program does not continue with
// a rollout that ends in one.
func repair(home adapters.Home, file string, p *adapters.Preparation) error {
	torn, err := rewritten(home, file, nil)
	if err == nil && len(torn) > 1 {
		p.Write = append(p.Write, torn...)
		p.Note = "The agent was killed while it wrote its transcript; the last line, half written, was set aside."
	}
	return err
}

// rewritten returns a rollout with its whole lines and another one; a torn last line is
// moved to a file of its own first.
func rewritten(home adapters.Home, file string, add []byte) ([]adapters.Repair, error) {
	in, err := home.Open(file)
	if err != nil {
		return nil, fmt.Errorf("codex: open rollout %s: %w", file, err)
	}
	whole, size, err := wholeLines(in)
	if err := errors.Join(err, in.Close()); err != nil {
		return nil, fmt.Errorf("codex: read rollout %s: %w", file, err)
	}
	var files []adapters.Repair
	if whole < size {
		files = append(files, adapters.Repair{Path: file + ".torn", From: file, Begin: whole, End: size})
	}
	return append(files, adapters.Repair{Path: file, From: file, End: whole, Add: add}), nil
}

// wholeLines returns the length of the complete lines, and of the file.
func wholeLines(in io.Reader) (whole, size int64, err error) {
	block := make([]byte, 1<<16)
	for {
		n, err := in.Read(block)
		if at := bytes.LastIndexByte(block[:n], '\n'); at >= 0 {
			whole = size + int64(at) + 1
		}
		size += int64(n)
		if errors.Is(err, io.EOF) {
			return whole, size, nil
		}
		if err != nil {
			return 0, 0, err
		}
	}
}
