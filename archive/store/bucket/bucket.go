// Package bucket keeps objects in a bucket of an S3 store: AWS's own, or any with conditional
// puts.
package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/sojourn-run/sojourn/archive/store"
)

// S3 is what is needed of an S3 store; *s3.Client implements it. Conditional
// puts (If-Match, and If-None-Match: *) must be honoured, and a read must see
// every put that was answered before it. Methods are called concurrently.
type S3 interface {
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
	ListObjectsV2(context.Context, *s3.ListObjectsV2Input, ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
	HeadBucket(context.Context, *s3.HeadBucketInput, ...func(*s3.Options)) (*s3.HeadBucketOutput, error)
	CreateBucket(context.Context, *s3.CreateBucketInput, ...func(*s3.Options)) (*s3.CreateBucketOutput, error)
}

var (
	_ S3          = (*s3.Client)(nil)
	_ store.Store = (*Bucket)(nil)
)

// Bucket is a bucket of an S3 store. Safe for concurrent use.
type Bucket struct {
	s3       S3
	name     string
	endpoint string
	region   string
}

// New returns a bucket that is reached by a client.
func New(name string, client S3) *Bucket {
	return &Bucket{s3: client, name: name, endpoint: "the given client"}
}

// Open returns a bucket that is reached as the standard AWS environment and config files say. A
// set AWS_ENDPOINT_URL_S3 (or AWS_ENDPOINT_URL) also switches to path-style addresses. It sends
// no request to the store: see Setup.
func Open(ctx context.Context, name string) (*Bucket, error) {
	load := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{}), config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired),
		config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired)}
	if os.Getenv("AWS_ENDPOINT_URL_S3") != "" {
		// A store other than AWS has no metadata service with its keys.
		load = append(load, config.WithEC2IMDSClientEnableState(imds.ClientDisabled))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("AWS settings: %w", err)
	}
	b := &Bucket{name: name}
	// A store other than AWS works with any region, but the client requires one.
	b.region = cmp.Or(cfg.Region, "us-east-1")
	cfg.Region = b.region
	b.s3 = s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = o.BaseEndpoint != nil
		b.endpoint = aws.ToString(o.BaseEndpoint)
	})
	b.endpoint = cmp.Or(b.endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"))
	return b, nil
}

// Name returns the bucket's name.
func (b *Bucket) Name() string { return b.name }

// Exists reports whether the store has the bucket.
func (b *Bucket) Exists(ctx context.Context) (bool, error) {
	// A listing, because the answer to a HEAD has no body with the error.
	_, err := b.s3.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &b.name, MaxKeys: aws.Int32(1)})
	if hasCode(err, "NoSuchBucket") {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("bucket %s: %w", b.name, err)
	}
	return true, nil
}

// Setup makes the bucket if it is missing.
func (b *Bucket) Setup(ctx context.Context) error {
	var err error
	for attempt := range setupTries {
		if err = b.make(ctx); err == nil {
			return nil
		}
		// Some stores fail if two clients make a bucket at once.
		if statusOf(err) < 500 || pause(ctx, attempt) != nil {
			break
		}
	}
	where := cmp.Or(b.endpoint, "AWS region "+b.region)
	return &store.ConnectError{Where: fmt.Sprintf("S3 at %s, bucket %s", where, b.name), Hint: hintFor(err), Cause: rootCause(err), Err: err}
}

// setupTries is how often Setup retries a store that returns a server error.
const setupTries = 5

// pause spreads out those who make the bucket: up to 16 ms, doubling.
func pause(ctx context.Context, attempt int) error {
	t := time.NewTimer(rand.N(16 * time.Millisecond << attempt))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (b *Bucket) make(ctx context.Context) error {
	_, err := b.s3.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &b.name})
	if err == nil || !isMissing(err) {
		return err
	}
	in := &s3.CreateBucketInput{Bucket: &b.name}
	if b.endpoint == "" && b.region != "us-east-1" {
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(b.region)}
	}
	_, err = b.s3.CreateBucket(ctx, in)
	if hasCode(err, "BucketAlreadyOwnedByYou") || hasCode(err, "BucketAlreadyExists") {
		return nil
	}
	return err
}

func hintFor(err error) string {
	if _, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return "is the store running? set AWS_ENDPOINT_URL_S3 to its address"
	}
	switch statusOf(err) {
	case 0:
		return "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in the AWS config files"
	case 400, 401, 403:
		return "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, and that they may use this bucket"
	}
	return "check SOJOURN_BUCKET and the store's own log"
}
