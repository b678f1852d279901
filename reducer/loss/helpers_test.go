package loss

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/reducer"
)

func foldAll(events ...event.Event) reducer.State { return foldOnto(reducer.State{}, events) }

func foldOnto(s reducer.State, events []event.Event) reducer.State {
	b := reducer.NewBuilder(s)
	for _, ev := range events {
		b.Add(ev)
	}
	return b.State()
}

func encode(t *testing.T, s reducer.State) string {
	t.Helper()
	data, err := json.Marshal(s)
	require.NoError(t, err)
	return string(data)
}

func find(blocks []event.Block, id string) int {
	return slices.IndexFunc(blocks, func(b event.Block) bool { return b.ID == id })
}

func block(id string, bt event.BlockType, status event.BlockStatus, content string) event.Block {
	return event.Block{ID: id, Type: bt, Status: status, Content: &content}
}

func text(id string, status event.BlockStatus, content string) event.BlockUpsert {
	return event.BlockUpsert{Block: block(id, event.BlockAssistantText, status, content)}
}
