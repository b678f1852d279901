package adapters

import (
	"encoding/json"
	"iter"
	"strings"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// TranslateOptions is what records alone do not have. The zero value is ready to
// use.
type TranslateOptions struct {
	// Prompt is the prompt on the agent's command line, for recordings without an
	// input side. Default: none.
	Prompt string
	// Side are transcripts of subagents, for what the agent does not stream: a
	// subagent whose transcript is given is taken from it alone. Default: none.
	Side []Source
}

// Translate returns the events of a recording from its beginning to its end. The
// end of the records counts as the end of the agent, so that nothing stays open.
// An error of records ends the iteration; an error of a side transcript is
// yielded and the iteration continues.
func Translate(a Adapter, records iter.Seq2[traffic.Record, error], o TranslateOptions) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		tr, err := a.Translator(Launch{}, nil)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		side, errs := readSide(a, o.Side)
		for _, err := range errs {
			if !yield(event.Event{}, err) {
				return
			}
		}
		for r, err := range whole(records, o.Prompt) {
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			for _, e := range tr.Step(r) {
				if !side.emit(e, yield) {
					return
				}
			}
		}
	}
}

// endOfRecords is the record of an end of a process that was not recorded.
const endOfRecords = "exit (end of records)"

// PromptType is the type of the line that represents a prompt on the agent's
// command line. Every translator accepts it, from the input side.
const PromptType = "sojourn.prompt"

// PromptLine returns that line: {"type":"sojourn.prompt","text":…}.
func PromptLine(text string) string {
	line, err := json.Marshal(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{PromptType, text})
	if err != nil {
		panic(err) // two strings can always be encoded
	}
	return string(line)
}

// whole yields the prompt, the records and an end.
func whole(records iter.Seq2[traffic.Record, error], prompt string) iter.Seq2[traffic.Record, error] {
	return func(yield func(traffic.Record, error) bool) {
		if prompt != "" && !yield(traffic.Record{Dir: event.DirIn, Line: PromptLine(prompt)}, nil) {
			return
		}
		last := traffic.Record{}
		for r, err := range records {
			if !yield(r, err) || err != nil {
				return
			}
			last = r
		}
		if last.Dir != event.DirSig || !strings.HasPrefix(last.Line, "exit") {
			yield(traffic.Record{TS: last.TS, Dir: event.DirSig, Line: endOfRecords}, nil)
		}
	}
}

// sideThreads are the conversations that the side transcripts have, in the order
// of the transcripts.
type sideThreads struct {
	events   map[string][]event.Event // by the outermost subagent
	fromSide map[string]bool          // conversations that the live side must not emit
}

func readSide(a Adapter, given []Source) (*sideThreads, []error) {
	s := &sideThreads{events: map[string][]event.Event{}, fromSide: map[string]bool{}}
	if len(given) == 0 {
		return s, nil
	}
	var errs []error
	outermost := map[string]string{}
	for e, err := range a.Parse(given) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		conversation := e.Context.Conversation()
		if p, ok := e.Payload.(event.SubagentSpawned); ok && outermost[p.ToolUseID] == "" {
			outermost[p.ToolUseID] = p.ToolUseID
			if root := outermost[conversation]; root != "" {
				outermost[p.ToolUseID] = root
			}
		}
		if root := outermost[conversation]; root != "" {
			s.events[root] = append(s.events[root], e)
			s.fromSide[conversation] = true
		}
	}
	return s, errs
}

// emit yields a live event, or what the side transcripts have instead.
func (s *sideThreads) emit(e event.Event, yield func(event.Event, error) bool) bool {
	if s.fromSide[e.Context.Conversation()] {
		return true
	}
	if !yield(e, nil) {
		return false
	}
	p, ok := e.Payload.(event.SubagentSpawned)
	if !ok {
		return true
	}
	for _, side := range s.events[p.ToolUseID] {
		if !yield(side, nil) {
			return false
		}
	}
	delete(s.events, p.ToolUseID)
	return true
}
