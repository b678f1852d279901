package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
)

// stored is an object's value with the tag that a conditional put needs; the
// tag is "" for an object that does not exist.
type stored[T any] struct {
	value T
	tag   string
}

// get reads a whole object; a missing one is ErrNotFound.
func (a *Archive) get(ctx context.Context, key string) (data []byte, tag string, err error) {
	return a.store.Get(ctx, key)
}

// put writes an object, replacing any.
func (a *Archive) put(ctx context.Context, key string, data []byte) error {
	return a.store.Put(ctx, key, data)
}

// swap writes an object if it still has the tag, or, for tag "", if there is
// none; else ErrChanged. After any other error it is unknown whether it was
// written.
func (a *Archive) swap(ctx context.Context, key, tag string, data []byte) (string, error) {
	return a.store.Swap(ctx, key, tag, data)
}

// remove deletes objects, several at a time; missing ones are not an error.
func (a *Archive) remove(ctx context.Context, keys ...string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, key := range keys {
		group.Go(func() error { return a.store.Delete(ctx, key) })
	}
	return group.Wait()
}

// list yields the names below a prefix, in order, after the given name: keys, or
// with folders only the folders directly below it (with their slash).
func (a *Archive) list(ctx context.Context, prefix, after string, folders bool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for o, err := range a.store.List(ctx, prefix, after, folders) {
			if !yield(o.Name, err) || err != nil {
				return
			}
		}
	}
}

// load decodes a JSON object; a missing one is a zero value without tag.
func load[T any](ctx context.Context, a *Archive, key string) (stored[T], error) {
	data, tag, err := a.get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return stored[T]{}, nil
	}
	if err != nil {
		return stored[T]{}, err
	}
	s := stored[T]{tag: tag}
	if err := json.Unmarshal(data, &s.value); err != nil {
		return stored[T]{}, fmt.Errorf("%s: %w: %w", key, ErrCorrupt, err)
	}
	return s, nil
}

// save swaps a JSON object.
func save[T any](ctx context.Context, a *Archive, key string, s stored[T]) (stored[T], error) {
	data, err := json.Marshal(s.value)
	if err != nil {
		return s, fmt.Errorf("encode %s: %w", key, err)
	}
	s.tag, err = a.swap(ctx, key, s.tag, data)
	return s, err
}

// swapTries is how often a read-change-swap is repeated when other writers win;
// with the pauses between, some seconds.
const swapTries = 40

// retry calls try until it doesn't lose against another writer.
func retry(ctx context.Context, try func(attempt int) error) error {
	for attempt := range swapTries {
		err := try(attempt)
		if !errors.Is(err, ErrChanged) {
			return err
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
	return ErrBusy
}

// pause spreads out competing writers: up to 2 ms, doubling to 256 ms.
func pause(ctx context.Context, attempt int) error {
	longest := 2 * time.Millisecond << min(attempt, 7)
	t := time.NewTimer(rand.N(longest))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
