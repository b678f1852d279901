package claude

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// Older versions store subagents differently. Version 2.0.0 writes their lines
// into the session's own file, marked as a sidechain. Version 2.0.77 writes a
// file for each beside the session's, and 2.1.20 one at today's path, both
// without a companion: the native result of the call names the agent.

// warmup is the prompt of subagents that version 2.0 starts by itself, before
// the first message, to fill the model's cache. The stream does not have them.
const warmup = "Warmup"

// beside returns the files of a session's subagents in the session's own folder,
// which also has those of other sessions.
func beside(home adapters.Home, main string) ([]adapters.Transcript, error) {
	paths, err := home.Glob(path.Join(path.Dir(main), agentPrefix+"*"+agentSuffix))
	if err != nil {
		return nil, fmt.Errorf("claude: find subagents: %w", err)
	}
	session := strings.TrimSuffix(path.Base(main), agentSuffix)
	var found []adapters.Transcript
	for _, p := range paths {
		of, err := sessionOf(home, p)
		if err != nil {
			return nil, err
		}
		if t, ok := subagentFile(p); ok && of == session {
			found = append(found, t)
		}
	}
	return found, nil
}

// sessionOf returns the session of a subagent's file; "" while its first line
// is not complete.
func sessionOf(home adapters.Home, file string) (string, error) {
	in, err := home.Open(file)
	if err != nil {
		return "", fmt.Errorf("claude: open %s: %w", file, err)
	}
	defer in.Close()
	var h struct {
		SessionID string `json:"sessionId"`
	}
	if err := json.NewDecoder(in).Decode(&h); err != nil {
		return "", nil // it is being written, or damaged: it can't be assigned to a session
	}
	return h.SessionID, nil
}

// call is one that starts a subagent.
type call struct{ id, prompt string }

// linkByCalls completes links by the calls in the session's own file: the result
// of one that ended names the agent. A call without a result is recognized by its
// prompt. It returns the agents that no call started.
func linkByCalls(sources []adapters.Source, links map[string]link) (warm map[string]bool) {
	warm = map[string]bool{}
	var main *adapters.Source
	var loose []adapters.Source
	for i, src := range sources {
		switch _, linked := links[src.ID]; {
		case src.ID == event.Main:
			main = &sources[i]
		case !linked && !strings.HasSuffix(src.ID, metaID):
			loose = append(loose, src)
		}
	}
	if main == nil || len(loose) == 0 {
		return warm
	}
	open := readCalls(*main, links)
	for _, src := range loose {
		if _, linked := links[src.ID]; linked {
			continue
		}
		prompt := firstPrompt(src)
		at := slices.IndexFunc(open, func(c call) bool { return c.prompt == prompt })
		switch {
		case at >= 0:
			links[src.ID] = link{ToolUseID: open[at].id}
			open = slices.Delete(open, at, at+1)
		case prompt == warmup:
			warm[src.ID] = true
		}
	}
	return warm
}

// readCalls adds to links the calls whose results name their agents, and returns
// the others, in order. What can't be read is skipped: parsing reports it.
func readCalls(main adapters.Source, links map[string]link) (open []call) {
	for l := range linesOf(main) {
		if l.Message == nil {
			continue
		}
		parts := l.Message.parts()
		for i := range parts {
			p := &parts[i]
			switch {
			case isToolUse(p.Type) && isAgentTool(p.Name):
				var in struct {
					Prompt string `json:"prompt"`
				}
				_ = json.Unmarshal(p.Input, &in) // input of another shape has no prompt
				open = append(open, call{p.ID, in.Prompt})
			case isToolResult(p.Type):
				id := string(l.nativeResult().AgentID)
				if _, known := links[id]; id == "" || known {
					continue
				}
				links[id] = link{ToolUseID: p.ToolUseID}
				open = slices.DeleteFunc(open, func(c call) bool { return c.id == p.ToolUseID })
			}
		}
	}
	return open
}

// firstPrompt returns the text with which a subagent's file begins.
func firstPrompt(src adapters.Source) string {
	for l := range linesOf(src) {
		return l.Message.text()
	}
	return ""
}

// linesOf yields the valid lines of a file. A line is valid until the next.
func linesOf(src adapters.Source) func(func(*line) bool) {
	return func(yield func(*line) bool) {
		f := &file{Transcript: src.Transcript, source: src}
		if f.open() != nil {
			return
		}
		defer f.in.Close()
		for {
			more, err := f.advance()
			if !more || err == nil && !yield(&f.next) {
				return
			}
		}
	}
}

// sidechain returns the conversation of a line in the session's own file: that of
// the subagent for a sidechain, else the main one. A chain begins with the prompt
// of a call, and each line names the one before it.
func (s *emitter) sidechain(l *line) string {
	if !l.IsSidechain {
		return event.Main
	}
	conversation := s.Side[l.ParentUUID]
	if l.ParentUUID == "" {
		conversation = s.askedBy(l.Message.text())
	}
	if conversation == "" {
		return event.Main // its call is not in the file
	}
	if s.Side == nil {
		s.Side = map[string]string{}
	}
	s.Side[l.UUID] = conversation
	return conversation
}

// askedBy returns the running subagent whose prompt has not been read yet.
func (s *emitter) askedBy(prompt string) string {
	for _, id := range slices.Sorted(maps.Keys(s.Agents)) {
		if a := s.Agents[id]; !a.Prompted && a.Prompt == prompt {
			return id
		}
	}
	return ""
}
