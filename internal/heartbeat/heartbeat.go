// Package heartbeat keeps an activity alive that waits for something.
package heartbeat

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
)

// every is a third of the heartbeat timeout of activities that wait (timeouts.Watch).
const every = 15 * time.Second

// Keep heartbeats for the activity of ctx until stop is called.
func Keep(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				activity.RecordHeartbeat(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
	return cancel
}
