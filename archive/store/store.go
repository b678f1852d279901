// Package store is what an archive needs of the place that keeps its objects: a bucket of an S3
// store (package bucket) or a folder (package folder). Package storetest, among the tests, is the
// suite that each implementation passes.
package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// Store keeps objects by their keys, which are relative paths with slashes; an object a and one
// a/b need not be possible at once. A read sees every write that has returned before it, of any
// process. After an error of a write other than ErrChanged it is unknown whether the object was
// written. Methods are called concurrently.
type Store interface {
	// Name is the bucket's name, or the folder.
	Name() string
	// Setup makes the bucket or folder if it is missing, and so verifies that it can be used.
	// Error: a [*ConnectError].
	Setup(ctx context.Context) error
	// Exists reports whether there is the bucket or folder.
	Exists(ctx context.Context) (bool, error)
	// Get reads an object, and its tag for Swap; [ErrNotFound] if there is none.
	Get(ctx context.Context, key string) (data []byte, tag string, err error)
	// GetRange reads n bytes from an offset on, all of them or none. Errors: [ErrNotFound],
	// [ErrShort].
	GetRange(ctx context.Context, key string, from, n int64) ([]byte, error)
	// Put writes an object, replacing any.
	Put(ctx context.Context, key string, data []byte) error
	// Swap writes an object if it still has the tag, or, for tag "", if there is none, and
	// returns its new tag. Error: [ErrChanged].
	Swap(ctx context.Context, key, tag string, data []byte) (string, error)
	// Delete deletes an object; a missing one is no error.
	Delete(ctx context.Context, key string) error
	// List yields the objects whose keys begin with a prefix and are behind prefix and after,
	// in the order of their bytes; with folders the folders directly below the prefix, with
	// their slash and without a size. The error ends it.
	List(ctx context.Context, prefix, after string, folders bool) iter.Seq2[Object, error]
}

// Object is an object in a listing.
type Object struct {
	// Name is the key without the prefix of the listing.
	Name string
	// Size is in bytes.
	Size int64
}

// Errors that callers branch on.
var (
	// ErrNotFound means that there is no such object.
	ErrNotFound = errors.New("not in the archive")
	// ErrChanged means that a conditional put found the object changed.
	ErrChanged = errors.New("the object has changed")
	// ErrShort means that an object has less than the wanted bytes.
	ErrShort = errors.New("the object is too short")
)

// ConnectError means that the store could not be reached or refuses access.
type ConnectError struct {
	// Where is what was to be reached: "S3 at ADDRESS, bucket NAME", "folder PATH".
	Where string
	// Hint is what to check, in one line.
	Hint string
	// Cause is Err for people.
	Cause error
	Err   error
}

// Error returns one line without the hint.
func (e *ConnectError) Error() string { return fmt.Sprintf("archive: %s: %v", e.Where, e.Cause) }

// Unwrap returns the store's own error.
func (e *ConnectError) Unwrap() error { return e.Err }
