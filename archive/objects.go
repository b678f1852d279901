package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
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
func (o *Objects) GetRange(ctx context.Context, name string, from, n int64) (data []byte, err error) {
	for range readTries {
		if data, err = o.getRange(ctx, name, from, n); err == nil {
			return data, nil
		}
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) || statusOf(err) != 0 || ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

func (o *Objects) getRange(ctx context.Context, name string, from, n int64) ([]byte, error) {
	key := o.prefix + name
	out, err := o.a.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: &o.a.bucket, Key: &key, Range: aws.String(fmt.Sprintf("bytes=%d-%d", from, from+n-1))})
	switch {
	case isMissing(err) && !hasCode(err, "NoSuchBucket"):
		return nil, fmt.Errorf("%s: %w", key, ErrNotFound)
	case hasCode(err, "InvalidRange"):
		return nil, fmt.Errorf("get %s: %w: it is too short", key, ErrCorrupt)
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	defer func() { _ = out.Body.Close() }() // the body has been read, or its read failed
	data, err := io.ReadAll(io.LimitReader(out.Body, n+1))
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	if int64(len(data)) != n {
		return nil, fmt.Errorf("get %s: %w: %d bytes at %d, want %d", key, ErrCorrupt, len(data), from, n)
	}
	return data, nil
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
	return func(yield func(ObjectInfo, error) bool) {
		for page, err := range o.a.pages(ctx, &s3.ListObjectsV2Input{Prefix: &o.prefix}) {
			if err != nil {
				yield(ObjectInfo{}, err)
				return
			}
			for _, c := range page.Contents {
				if !yield(ObjectInfo{strings.TrimPrefix(aws.ToString(c.Key), o.prefix), aws.ToInt64(c.Size)}, nil) {
					return
				}
			}
		}
	}
}

// ObjectInfo is an object in a listing.
type ObjectInfo struct {
	Name string
	// Size is in bytes.
	Size int64
}

// Retry calls try again while it fails with [ErrChanged], for some seconds; then
// the error is [ErrBusy].
func Retry(ctx context.Context, try func() error) error {
	return retry(ctx, func(int) error { return try() })
}
