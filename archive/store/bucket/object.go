package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sojourn-run/sojourn/archive/store"
)

// readTries is how often a body that breaks off is requested again; the client
// itself only repeats requests that got no answer at all.
const readTries = 3

// Get reads an object. Its tag is the store's ETag.
func (b *Bucket) Get(ctx context.Context, key string) (data []byte, tag string, err error) {
	err = b.read(ctx, &s3.GetObjectInput{Key: &key}, func(out *s3.GetObjectOutput) error {
		tag = aws.ToString(out.ETag)
		data, err = readSized(out.Body, aws.ToInt64(out.ContentLength))
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return data, tag, nil
}

// GetRange reads n bytes of an object from an offset on.
func (b *Bucket) GetRange(ctx context.Context, key string, from, n int64) (data []byte, err error) {
	in := &s3.GetObjectInput{Key: &key, Range: aws.String(fmt.Sprintf("bytes=%d-%d", from, from+n-1))}
	err = b.read(ctx, in, func(out *s3.GetObjectOutput) error {
		if data, err = io.ReadAll(io.LimitReader(out.Body, n+1)); err == nil && int64(len(data)) != n {
			return fmt.Errorf("%w: %d bytes at %d, want %d", store.ErrShort, len(data), from, n)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// read gets an object and reads its body, again if that breaks off.
func (b *Bucket) read(ctx context.Context, in *s3.GetObjectInput, body func(*s3.GetObjectOutput) error) (err error) {
	in.Bucket = &b.name
	for range readTries {
		err = b.readOnce(ctx, in, body)
		if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrShort) || statusOf(err) != 0 || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func (b *Bucket) readOnce(ctx context.Context, in *s3.GetObjectInput, body func(*s3.GetObjectOutput) error) error {
	out, err := b.s3.GetObject(ctx, in)
	switch {
	case isMissing(err) && !hasCode(err, "NoSuchBucket"):
		return fmt.Errorf("%s: %w", *in.Key, store.ErrNotFound)
	case hasCode(err, "InvalidRange"):
		return fmt.Errorf("get %s: %w", *in.Key, store.ErrShort)
	case err != nil:
		return fmt.Errorf("get %s: %w", *in.Key, err)
	}
	defer func() { _ = out.Body.Close() }() // the body has been read, or its read failed
	if err := body(out); err != nil {
		return fmt.Errorf("get %s: %w", *in.Key, err)
	}
	return nil
}

// readSized reads a body of known length, without the memory that growing takes.
func readSized(body io.Reader, size int64) ([]byte, error) {
	buf := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err := buf.ReadFrom(body)
	return buf.Bytes(), err
}

// putTries is how often a put without a condition is repeated that the store has refused for one:
// the Versity gateway, which keeps files, does while it deletes the last other one of a folder.
const putTries = 5

// Put writes an object.
func (b *Bucket) Put(ctx context.Context, key string, data []byte) (err error) {
	for range putTries {
		if _, err = b.put(ctx, &s3.PutObjectInput{Key: &key}, data); !errors.Is(err, store.ErrChanged) {
			return err
		}
	}
	return err
}

// Swap writes an object if it has not changed.
func (b *Bucket) Swap(ctx context.Context, key, tag string, data []byte) (string, error) {
	in := &s3.PutObjectInput{Key: &key}
	if tag == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = &tag
	}
	return b.put(ctx, in, data)
}

func (b *Bucket) put(ctx context.Context, in *s3.PutObjectInput, data []byte) (string, error) {
	in.Bucket, in.Body = &b.name, bytes.NewReader(data)
	out, err := b.s3.PutObject(ctx, in)
	if err != nil && isConflict(err) {
		return "", fmt.Errorf("put %s: %w", *in.Key, store.ErrChanged)
	}
	if err != nil {
		return "", fmt.Errorf("put %s: %w", *in.Key, err)
	}
	return aws.ToString(out.ETag), nil
}

// Delete deletes an object. There is no deletion of many, for two reasons. Not every store
// supports DeleteObjects. And its answer is sometimes lost, because the client library closes the
// request's body as soon as it is answered; net/http may treat that as a failed write and cut the
// connection during the answer's body. A delete has neither body.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	_, err := b.s3.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &key})
	if err != nil && (!isMissing(err) || hasCode(err, "NoSuchBucket")) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

// List yields objects or folders below a prefix.
func (b *Bucket) List(ctx context.Context, prefix, after string, folders bool) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		in := &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &prefix}
		if folders {
			in.Delimiter = aws.String("/")
		}
		if after != "" {
			in.StartAfter = aws.String(prefix + after)
		}
		for more := true; more; {
			out, err := b.s3.ListObjectsV2(ctx, in)
			if err != nil {
				yield(store.Object{}, fmt.Errorf("list %s: %w", prefix, err))
				return
			}
			for _, o := range listed(out, folders) {
				o.Name = strings.TrimPrefix(o.Name, prefix)
				if !yield(o, nil) {
					return
				}
			}
			more, in.ContinuationToken = aws.ToBool(out.IsTruncated), out.NextContinuationToken
		}
	}
}

func listed(out *s3.ListObjectsV2Output, folders bool) (found []store.Object) {
	if folders {
		for _, p := range out.CommonPrefixes {
			found = append(found, store.Object{Name: aws.ToString(p.Prefix)})
		}
		return found
	}
	for _, o := range out.Contents {
		found = append(found, store.Object{Name: aws.ToString(o.Key), Size: aws.ToInt64(o.Size)})
	}
	return found
}
