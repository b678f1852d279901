package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"golang.org/x/sync/errgroup"
)

// stored is an object's value with the tag that a conditional put needs; the
// tag is "" for an object that does not exist.
type stored[T any] struct {
	value T
	tag   string
}

// readTries is how often a body that breaks off is requested again; the client
// itself only repeats requests that got no answer at all.
const readTries = 3

// get reads a whole object; a missing one is ErrNotFound.
func (a *Archive) get(ctx context.Context, key string) (data []byte, tag string, err error) {
	for range readTries {
		if data, tag, err = a.getOnce(ctx, key); err == nil {
			return data, tag, nil
		}
		if errors.Is(err, ErrNotFound) || statusOf(err) != 0 || ctx.Err() != nil {
			break
		}
	}
	return nil, "", err
}

func (a *Archive) getOnce(ctx context.Context, key string) (data []byte, tag string, err error) {
	out, err := a.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: &a.bucket, Key: &key})
	if isMissing(err) && !hasCode(err, "NoSuchBucket") {
		return nil, "", fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	if err != nil {
		return nil, "", fmt.Errorf("get %s: %w", key, err)
	}
	defer func() { _ = out.Body.Close() }() // the body has been read, or its read failed
	if data, err = readSized(out.Body, aws.ToInt64(out.ContentLength)); err != nil {
		return nil, "", fmt.Errorf("get %s: %w", key, err)
	}
	return data, aws.ToString(out.ETag), nil
}

// readSized reads a body of known length, without the memory that growing takes.
func readSized(body io.Reader, size int64) ([]byte, error) {
	buf := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err := buf.ReadFrom(body)
	return buf.Bytes(), err
}

// put writes an object, replacing any.
func (a *Archive) put(ctx context.Context, key string, data []byte) error {
	_, err := a.doPut(ctx, &s3.PutObjectInput{Key: &key}, data)
	return err
}

// swap writes an object if it still has the tag, or, for tag "", if there is
// none; else ErrChanged. After any other error it is unknown whether it was
// written.
func (a *Archive) swap(ctx context.Context, key, tag string, data []byte) (string, error) {
	in := &s3.PutObjectInput{Key: &key}
	if tag == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = &tag
	}
	return a.doPut(ctx, in, data)
}

func (a *Archive) doPut(ctx context.Context, in *s3.PutObjectInput, data []byte) (string, error) {
	in.Bucket, in.Body = &a.bucket, bytes.NewReader(data)
	out, err := a.s3.PutObject(ctx, in)
	if err != nil && isConflict(err) {
		return "", fmt.Errorf("put %s: %w", *in.Key, ErrChanged)
	}
	if err != nil {
		return "", fmt.Errorf("put %s: %w", *in.Key, err)
	}
	return aws.ToString(out.ETag), nil
}

// remove deletes objects; missing ones are not an error. It deletes one by one,
// for two reasons. Not every store supports DeleteObjects. And its answer is
// sometimes lost, because the client library closes the request's body as soon as
// it is answered; net/http may treat that as a failed write and cut the
// connection during the answer's body. A delete has neither body.
func (a *Archive) remove(ctx context.Context, keys ...string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, key := range keys {
		group.Go(func() error {
			_, err := a.s3.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &a.bucket, Key: &key})
			if err != nil && (!isMissing(err) || hasCode(err, "NoSuchBucket")) {
				return fmt.Errorf("delete %s: %w", key, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// list yields the names below a prefix, in order, after the given name: keys, or
// with folders only the folders directly below it (with their slash).
func (a *Archive) list(ctx context.Context, prefix, after string, folders bool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		in := &s3.ListObjectsV2Input{Prefix: &prefix}
		if folders {
			in.Delimiter = aws.String("/")
		}
		if after != "" {
			in.StartAfter = aws.String(prefix + after)
		}
		for out, err := range a.pages(ctx, in) {
			if err != nil {
				yield("", err)
				return
			}
			for _, name := range listed(out, folders) {
				if !yield(strings.TrimPrefix(name, prefix), nil) {
					return
				}
			}
		}
	}
}

// pages yields the pages of a listing. The error ends it.
func (a *Archive) pages(ctx context.Context, in *s3.ListObjectsV2Input) iter.Seq2[*s3.ListObjectsV2Output, error] {
	return func(yield func(*s3.ListObjectsV2Output, error) bool) {
		in.Bucket = &a.bucket
		for more := true; more; {
			out, err := a.s3.ListObjectsV2(ctx, in)
			if err != nil {
				yield(nil, fmt.Errorf("list %s: %w", *in.Prefix, err))
				return
			}
			if !yield(out, nil) {
				return
			}
			more, in.ContinuationToken = aws.ToBool(out.IsTruncated), out.NextContinuationToken
		}
	}
}

func listed(out *s3.ListObjectsV2Output, folders bool) (names []string) {
	if folders {
		for _, p := range out.CommonPrefixes {
			names = append(names, aws.ToString(p.Prefix))
		}
		return names
	}
	for _, o := range out.Contents {
		names = append(names, aws.ToString(o.Key))
	}
	return names
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
