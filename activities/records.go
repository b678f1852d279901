package activities

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/sojourn-run/sojourn/runner"
)

// delivered is one record of the agent, or why there are no more.
type delivered struct {
	runner.Delivery
	err error
	// done must be called when the record is translated.
	done func()
}

// maxRecords bounds how many records wait to be translated.
const maxRecords = 256

// records reads the spool from the checkpoint on, in a goroutine that ends with ctx. Those
// that wait for translation are bounded in number and in bytes.
func (a *attempt) records(ctx context.Context) <-chan delivered {
	ch := make(chan delivered, maxRecords)
	room := int64(a.host.o.Memory.records())
	weighed := semaphore.NewWeighted(room)
	go func() {
		defer close(ch)
		for d, err := range a.agent.Conn.Records(ctx, a.checkpoint.Offset) {
			weight := min(d.Next-d.Offset, room)
			if err != nil {
				weight = 0 // there is nothing to translate
			}
			if weighed.Acquire(ctx, weight) != nil {
				return
			}
			select {
			case ch <- delivered{d, err, func() { weighed.Release(weight) }}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ch
}
