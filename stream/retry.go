package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// patience is how often a read without Follow is tried.
const patience = 4

// patiently calls op until the stream answers, a few times.
func (l *Log) patiently(ctx context.Context, op func(context.Context) error) error {
	return l.retry(ctx, patience, op)
}

// insist calls op until the stream answers or ctx ends: the stream may be down
// for hours, and the caller keeps its position.
func (l *Log) insist(ctx context.Context, op func(context.Context) error) error {
	return l.retry(ctx, 0, op)
}

// retry calls op until it returns something else than a sign that the stream does
// not answer. Each try has its own deadline. 0 tries is no limit.
func (l *Log) retry(ctx context.Context, tries int, op func(context.Context) error) error {
	for try := 1; ; try++ {
		err := l.once(ctx, try, op)
		if err == nil || ctx.Err() != nil || !transient(err) || try == tries {
			return describe(ctx, err)
		}
		if missing(err) && l.restore(ctx) {
			continue
		}
		if try%10 == 1 {
			l.opts.Logger.WarnContext(ctx, "stream does not answer, trying again", "stream", l.opts.Name, "try", try, "error", err)
		}
		if err := pause(ctx, backoff(try)); err != nil {
			return describe(ctx, err)
		}
	}
}

func (l *Log) once(ctx context.Context, try int, op func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.opts.Timeout<<min(try-1, 2))
	defer cancel()
	return op(ctx)
}

// describe returns the caller's own reason if the caller stopped, and hides a
// deadline that is not the caller's.
func describe(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: no answer", nats.ErrTimeout)
	}
	return err
}

func backoff(try int) time.Duration {
	return min(time.Second, 5*time.Millisecond<<min(try, 8))
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// missing reports whether an error may mean that there is no stream: then nothing
// listens on its subjects.
func missing(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, jetstream.ErrStreamNotFound)
}

// transient reports whether the stream gave no answer, or none yet: whether the
// request took effect is unknown.
func transient(err error) bool {
	for _, e := range []error{
		context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, jetstream.ErrNoStreamResponse,
		nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded, nats.ErrStaleConnection,
		errPending, jetstream.ErrStreamNotFound,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.Code >= 500
}
