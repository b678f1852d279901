package starter

import (
	"context"

	"github.com/sojourn-run/sojourn/event"
)

// asks returns the open permission requests of a session that the stream still has, oldest
// first. It needs neither Temporal nor the archive.
func (c *cli) asks(ctx context.Context, id string) ([]event.Event, error) {
	sc, err := c.client(ctx, needStream)
	if err != nil {
		return nil, err
	}
	return sc.Requests(ctx, id)
}
