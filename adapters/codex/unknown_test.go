package codex

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

// Lines of a kind that nobody knows, wherever they come, are all kept, and
// change nothing else.
func TestUnknownAnywhere(t *testing.T) {
	t.Parallel()
	strange := event.Record{Dir: event.DirOut, Line: `{"type":"never_heard_of","patch":7,"x":[1]}`}
	for _, p := range processes(t) {
		records := spool([]process{p})
		var mixed []event.Record
		for i, r := range records {
			if i%7 == 0 {
				mixed = append(mixed, strange)
			}
			mixed = append(mixed, r)
		}
		kept := 0
		b := reducer.NewBuilder(reducer.State{})
		for e, err := range adapters.Translate(New(), sequence(mixed), adapters.TranslateOptions{}) {
			require.NoError(t, err)
			if n, ok := e.Payload.(event.Native); ok && n.Kind == "never_heard_of" {
				kept++
			}
			b.Add(e)
		}
		require.Equal(t, len(mixed)-len(records), kept, p.name)
		plain, err := reducer.Fold(adapters.Translate(New(), sequence(records), adapters.TranslateOptions{}))
		require.NoError(t, err)
		require.Equal(t, toJSON(t, plain), toJSON(t, b.State()), p.name)
	}
}

// Cut off after any record, the conversation settles: nothing stays open.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	for _, p := range processes(t) {
		records := spool([]process{p})
		for cut := 0; cut <= len(records); cut += 1 + len(records)/60 {
			s, err := reducer.Fold(adapters.Translate(New(), sequence(records[:cut]), adapters.TranslateOptions{}))
			require.NoError(t, err)
			for _, b := range s.Blocks {
				require.NotEqual(t, event.ExecutionRunning, b.Execution, "%s cut at %d", p.name, cut)
			}
		}
	}
}
