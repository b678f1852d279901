package activities

import (
	"context"
	"fmt"

	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/turn"
)

// takeStream takes the stream's fence, once.
func (a *attempt) takeStream(ctx context.Context) (err error) {
	if a.writer != nil {
		return nil
	}
	a.writer, err = a.host.o.Stream.Writer(ctx, a.in.Agent.SessionID, a.fence, stream.WriterOptions{
		LastSeq: a.in.LastSeq, Fresh: true, Confirm: a.confirmEpoch,
	})
	if err != nil {
		return err
	}
	if had := a.writer.Tail().Position; had.Epoch == a.fence.Epoch {
		a.machine.Had = &turn.Place{Offset: had.Offset, Index: had.Index}
	}
	a.out = a.writer.Batcher(ctx, stream.BatcherOptions{MaxBytes: a.host.o.Memory.queue()})
	return nil
}

// confirmEpoch returns [stream.ErrFenced] if the turn's epoch is not the session's newest
// in the archive, which has it when the stream does not.
func (a *attempt) confirmEpoch(ctx context.Context) error {
	newest, err := a.host.o.Archive.Epoch(ctx, a.in.Agent.SessionID)
	if err == nil && newest != a.fence.Epoch {
		err = fmt.Errorf("%w: the archive is at epoch %d, this turn at %d", stream.ErrFenced, newest, a.fence.Epoch)
	}
	return err
}
