package activities

import (
	"context"
	"fmt"

	"github.com/sojourn-run/sojourn/stream"
)

// takeStream takes the stream's fence.
func (t *turn) takeStream(ctx context.Context) (err error) {
	t.writer, err = t.host.o.Stream.Writer(ctx, t.in.Agent.SessionID, t.fence, stream.WriterOptions{
		LastSeq: t.in.LastSeq, Fresh: true, Confirm: t.confirmEpoch,
	})
	if err != nil {
		return err
	}
	t.had = t.writer.Tail().Position
	t.out = t.writer.Batcher(ctx, stream.BatcherOptions{MaxBytes: t.host.o.Memory.queue()})
	return nil
}

// confirmEpoch returns [stream.ErrFenced] if the turn's epoch is not the
// session's newest by the archive, which knows it when the stream does not.
func (t *turn) confirmEpoch(ctx context.Context) error {
	newest, err := t.host.o.Archive.Epoch(ctx, t.in.Agent.SessionID)
	if err == nil && newest != t.fence.Epoch {
		err = fmt.Errorf("%w: the archive is at epoch %d, this turn at %d", stream.ErrFenced, newest, t.fence.Epoch)
	}
	return err
}
