package stream

import (
	"errors"
	"iter"

	"github.com/sojourn-run/sojourn/event"
)

// Left yields what read yields behind after. If the next events are past the stream's
// retention, it begins with the first one that is left; a later gap is an error.
func Left(after uint64, read func(after uint64) iter.Seq2[event.Event, error]) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for purged := true; purged; {
			begun := false
			purged = false
			for e, err := range read(after) {
				gap, _ := errors.AsType[*GapError](err)
				if purged = !begun && gap != nil && gap.Purged && gap.Have > after+1; purged {
					after = gap.Have - 1
					break
				}
				begun = true
				if !yield(e, err) {
					return
				}
			}
		}
	}
}
