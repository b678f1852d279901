package supervisor

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/sojourn-run/sojourn/runner/internal/spool"
	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

// chunk is about how many bytes of records are sent in one write.
const chunk = 128 << 10

// stream sends one client the records from an offset on.
type stream struct {
	c      *client
	id     uint64
	ctx    context.Context
	cancel context.CancelFunc
	bound  bool // credit applies

	mu     sync.Mutex
	credit int64
	more   chan struct{}
}

func (c *client) startStream(req wire.Request) {
	args, err := wire.Args[wire.Records](req)
	if err != nil {
		c.reply(req.ID, nil, err)
		return
	}
	if _, err := c.s.epoch.watch(c.epoch); err != nil {
		c.reply(req.ID, nil, err)
		return
	}
	reader, err := c.s.spool.Reader(args.From)
	if err != nil {
		c.reply(req.ID, nil, err)
		return
	}
	st := c.openStream(req.ID)
	st.credit, st.bound = args.Credit, args.Credit > 0
	c.work.Go(func() {
		st.run(reader)
		c.closeStream(st)
	})
}

// openStream returns a stream that the client can cancel by a request's id.
func (c *client) openStream(id uint64) *stream {
	st := &stream{c: c, id: id, more: make(chan struct{}, 1)}
	st.ctx, st.cancel = context.WithCancel(c.ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[id] = st
	return st
}

func (c *client) closeStream(st *stream) {
	st.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.streams, st.id)
}

func (c *client) stream(id uint64) *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams[id]
}

func (c *client) grant(req wire.Request) {
	args, err := wire.Args[wire.Credit](req)
	st := c.stream(args.Stream)
	if err != nil || st == nil {
		return
	}
	st.mu.Lock()
	st.credit += args.Bytes
	st.mu.Unlock()
	select {
	case st.more <- struct{}{}:
	default:
	}
}

func (c *client) stopStream(req wire.Request) {
	args, err := wire.Args[wire.Cancel](req)
	if st := c.stream(args.Stream); err == nil && st != nil {
		st.cancel()
	}
}

// run sends records until the spool is complete, a higher epoch takes over, or
// the client cancels.
func (st *stream) run(reader *spool.Reader) {
	defer st.cancel()
	defer reader.Close()
	for st.ctx.Err() == nil {
		superseded, err := st.c.s.epoch.watch(st.c.epoch)
		if err != nil {
			st.c.reply(st.id, nil, err)
			return
		}
		// Requested before reading, so that no change in between is missed.
		_, sealed, changed := st.c.s.spool.Changed()
		at, records, err := reader.Next(chunk)
		gap, lost := errors.AsType[*spool.Gap](err)
		switch {
		case lost:
			st.sendGap(gap)
		case err != nil:
			st.c.reply(st.id, nil, err)
			return
		case len(records) > 0:
			st.send(at, records)
		case sealed:
			st.end()
			return
		default:
			select {
			case <-changed:
			case <-superseded:
			case <-st.ctx.Done():
			}
		}
	}
}

// end reports that no record will follow.
func (st *stream) end() {
	if line, err := wire.Line(wire.Reply{ID: st.id, End: true}); err == nil {
		st.c.write(line)
	}
}

// sendGap sends the client an error in place of the lost records.
func (st *stream) sendGap(g *spool.Gap) {
	if !st.affordable() && !st.awaitCredit() {
		return
	}
	st.spend(1)
	st.c.write(wire.AppendRecord(nil, st.id, g.From, g.To, []byte("null")))
}

// send sends the client records as fast as its credit allows.
func (st *stream) send(at int64, records []byte) {
	var out []byte
	for record := range bytes.Lines(records) {
		if !st.affordable() {
			st.flush(&out)
			if !st.awaitCredit() {
				return
			}
		}
		next := at + int64(len(record))
		out = wire.AppendRecord(out, st.id, at, next, record[:len(record)-1])
		st.spend(next - at)
		at = next
	}
	st.flush(&out)
}

func (st *stream) flush(out *[]byte) {
	if len(*out) > 0 {
		st.c.write(*out)
		*out = (*out)[:0]
	}
}

func (st *stream) affordable() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return !st.bound || st.credit > 0
}

func (st *stream) spend(n int64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.credit -= n
}

// awaitCredit returns false when the stream has ended.
func (st *stream) awaitCredit() bool {
	for !st.affordable() {
		superseded, err := st.c.s.epoch.watch(st.c.epoch)
		if err != nil {
			return false
		}
		select {
		case <-st.more:
		case <-superseded:
		case <-st.ctx.Done():
			return false
		}
	}
	return true
}
