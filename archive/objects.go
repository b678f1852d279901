package archive

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/sojourn-run/sojourn/archive/store"
)

// Objects are the objects that another package keeps for a session, below a
// separate name. They are deleted with the session. Each part of an object's name
// must be a [SafeName]. Safe for concurrent use.
type Objects struct {
	a               *Archive
	session, prefix string
}

// Objects returns the session's objects below a name. Error: [ErrInvalid].
func (a *Archive) Objects(session, name string) (*Objects, error) {
	if err := checkSession(session); err != nil {
		return nil, err
	}
	return &Objects{a: a, session: session, prefix: a.sessionKey(session) + name + "/"}, nil
}

// Batch returns the objects of a batch, which belong to no session. Error: [ErrInvalid].
func (a *Archive) Batch(id string) (*Objects, error) {
	if err := checkSession(id); err != nil {
		return nil, err
	}
	return &Objects{a: a, prefix: a.root + "batches/" + id + "/"}, nil
}

// SafeName reports whether a name is one component of a key in any store:
// letters, digits, "-", "_" and inner dots, at most 64 bytes.
func SafeName(name string) bool {
	return name != "" && len(name) <= 64 && escape(name) == name
}

// Fence returns [ErrFenced] unless the epoch is the session's newest.
func (o *Objects) Fence(ctx context.Context, epoch uint64) error {
	return o.a.fence(ctx, o.session, epoch)
}

// Get returns an object and the tag that [Objects.Swap] needs; [ErrNotFound]
// for one that does not exist.
func (o *Objects) Get(ctx context.Context, name string) (data []byte, tag string, err error) {
	return o.a.get(ctx, o.prefix+name)
}

// GetRange returns n bytes of an object from an offset on, all of them or none.
// Errors: [ErrNotFound], and [ErrCorrupt] for an object that is too short.
func (o *Objects) GetRange(ctx context.Context, name string, from, n int64) ([]byte, error) {
	data, err := o.a.store.GetRange(ctx, o.prefix+name, from, n)
	if errors.Is(err, store.ErrShort) {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return data, err
}

// Put writes an object, replacing any.
func (o *Objects) Put(ctx context.Context, name string, data []byte) error {
	return o.a.put(ctx, o.prefix+name, data)
}

// Swap writes an object if it still has the tag, or, for tag "", if there is
// none, and returns its new tag. Error: [ErrChanged]; after any other it is
// unknown whether the object was written.
func (o *Objects) Swap(ctx context.Context, name, tag string, data []byte) (string, error) {
	return o.a.swap(ctx, o.prefix+name, tag, data)
}

// Remove deletes objects; missing ones are not an error.
func (o *Objects) Remove(ctx context.Context, names ...string) error {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = o.prefix + name
	}
	return o.a.remove(ctx, keys...)
}

// All yields the names of the objects with their sizes in bytes, by name. The
// error ends it.
func (o *Objects) All(ctx context.Context) iter.Seq2[ObjectInfo, error] {
	return o.a.store.List(ctx, o.prefix, "", false)
}

// ObjectInfo is an object in a listing: its name and size.
type ObjectInfo = store.Object

// Retry calls try again while it fails with [ErrChanged], for some seconds; then
// the error is [ErrBusy].
func Retry(ctx context.Context, try func() error) error {
	return retry(ctx, func(int) error { return try() })
}
