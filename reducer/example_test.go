package reducer_test

import (
	"fmt"
	"strings"

	"github.com/sojourn-run/sojourn/event/jsonl"
	"github.com/sojourn-run/sojourn/reducer"
)

const stream = `
{"type":"block:upsert","payload":{"block":{"id":"m:0","type":"assistant_text"}},"context":{"conversationId":"main"}}
{"type":"block:delta","payload":{"blockId":"m:0","delta":"Hel"},"context":{"conversationId":"main"}}
{"type":"block:delta","payload":{"blockId":"m:0","delta":"lo"},"context":{"conversationId":"main"}}
{"type":"session:idle","payload":{},"context":{"conversationId":"main"}}
`

func ExampleFold() {
	state, err := reducer.Fold(jsonl.Decode(strings.NewReader(stream)))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, b := range state.Blocks {
		fmt.Println(b.Type, b.Status, *b.Content)
	}
	// Output: assistant_text complete Hello
}

// A reader that redraws only changes keeps the last state and compares the next one.
func ExampleReduce() {
	var state reducer.State
	draws := 0
	for e, err := range jsonl.Decode(strings.NewReader(stream + `{"type":"log","payload":{"level":"info","message":"x"},"context":{}}`)) {
		if err != nil {
			fmt.Println(err)
			return
		}
		next := reducer.Reduce(state, e)
		if !next.Same(state) {
			draws++
		}
		state = next
	}
	fmt.Println(draws, "of 5 events changed the conversation")
	// Output: 4 of 5 events changed the conversation
}
