package replay

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// FuzzRecords is the body of a fuzz test of the translator. Whatever the lines are, the
// result must be repeatable, also when the translation is cut in the middle. A line
// that begins with a direction has that direction.
func (a Agent) FuzzRecords(t *testing.T, data []byte) {
	var records []traffic.Record
	dirs := []event.Dir{event.DirOut, event.DirIn, event.DirOut, event.DirErr, event.DirSig}
	for i, line := range strings.Split(string(data), "\n") {
		dir := dirs[(i+len(line))%len(dirs)]
		if told, rest, ok := strings.Cut(line, " "); ok && len(told) <= 3 {
			dir, line = event.Dir(told), rest
		}
		records = append(records, traffic.Record{Dir: dir, Line: line})
	}
	whole, _ := a.Step(t, nil, records)
	again, _ := a.Step(t, nil, records)
	require.Equal(t, whole, again)
	head, state := a.Step(t, nil, records[:len(records)/2])
	tail, _ := a.Step(t, state, records[len(records)/2:])
	require.Equal(t, whole, append(head, tail...))
}

// FuzzSources is the body of a fuzz test of the parser. Whatever the transcripts are,
// the valid part must be the same again.
func (a Agent) FuzzSources(t *testing.T, sources ...adapters.Source) {
	good := func() (events []string) {
		for e, err := range a.Adapter.Parse(sources) {
			if err == nil {
				events = append(events, JSON(t, e))
			}
		}
		return events
	}
	require.Equal(t, good(), good())
}
