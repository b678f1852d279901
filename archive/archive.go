package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// S3 is what the archive needs of a store; *s3.Client implements it. Conditional
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

var _ S3 = (*s3.Client)(nil)

// Options of [Open]. The zero value works if the AWS environment is set up.
type Options struct {
	// Bucket has everything; default "sojourn".
	Bucket string
	// Prefix is put before every key; default none.
	Prefix string
	// Namespace separates Temporal namespaces; default "default".
	Namespace string
	// Client is used instead of one made from the standard AWS environment
	// and config files. By default a set AWS_ENDPOINT_URL_S3 (or
	// AWS_ENDPOINT_URL) also switches to path-style addresses.
	Client S3
	// Now stamps records; default time.Now.
	Now func() time.Time
}

// Archive is one namespace in one bucket.
type Archive struct {
	s3       S3
	bucket   string
	root     string
	endpoint string
	region   string
	now      func() time.Time
	limits   limits

	mu    sync.Mutex
	heads map[string]stored[transcriptHead]
}

// limits shape transcripts; tests make them small.
type limits struct {
	// segment is the size in bytes up to which segments are merged. It also bounds
	// the memory of a merge and of a reader.
	segment int64
	// page is how many full segments move from a head to a page at once.
	page int
	// cache is how many transcript heads are cached.
	cache int
}

var defaultLimits = limits{segment: 8 << 20, page: 32, cache: 4096}

// Open returns an archive. It sends no request to the store: see [Archive.Setup].
func Open(ctx context.Context, o Options) (*Archive, error) {
	a := &Archive{
		s3:     o.Client,
		bucket: cmp.Or(o.Bucket, "sojourn"),
		now:    o.Now,
		limits: defaultLimits,
		heads:  map[string]stored[transcriptHead]{},
	}
	if a.now == nil {
		a.now = time.Now
	}
	namespace := cmp.Or(o.Namespace, "default")
	if strings.Contains(namespace, "/") {
		return nil, fmt.Errorf("archive: open: %w namespace %q: it has a slash", ErrInvalid, namespace)
	}
	a.root = namespace + "/"
	if prefix := strings.Trim(o.Prefix, "/"); prefix != "" {
		a.root = prefix + "/" + a.root
	}
	if a.s3 != nil {
		a.endpoint = "the given client"
		return a, nil
	}
	return a, a.connect(ctx)
}

func (a *Archive) connect(ctx context.Context) error {
	load := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{}), config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired),
		config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired)}
	if os.Getenv("AWS_ENDPOINT_URL_S3") != "" {
		// A store other than AWS has no metadata service with its keys.
		load = append(load, config.WithEC2IMDSClientEnableState(imds.ClientDisabled))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return fmt.Errorf("archive: open: AWS settings: %w", err)
	}
	// A store other than AWS works with any region, but the client requires one.
	a.region = cmp.Or(cfg.Region, "us-east-1")
	cfg.Region = a.region
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = o.BaseEndpoint != nil
		a.endpoint = aws.ToString(o.BaseEndpoint)
	})
	a.endpoint = cmp.Or(a.endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"))
	a.s3 = client
	return nil
}

// Setup makes the bucket if it is missing, and so verifies that the store can be
// reached; if not, the error is a [*ConnectError].
func (a *Archive) Setup(ctx context.Context) error {
	var err error
	for attempt := range setupTries {
		if err = a.makeBucket(ctx); err == nil {
			return nil
		}
		// Some stores fail if two clients make a bucket at once.
		if statusOf(err) < 500 || pause(ctx, attempt+3) != nil {
			break
		}
	}
	return a.connectError(err)
}

// setupTries is how often Setup retries a store that returns a server error.
const setupTries = 5

func (a *Archive) makeBucket(ctx context.Context) error {
	_, err := a.s3.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &a.bucket})
	if err == nil || !isMissing(err) {
		return err
	}
	in := &s3.CreateBucketInput{Bucket: &a.bucket}
	if a.endpoint == "" && a.region != "us-east-1" {
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(a.region)}
	}
	_, err = a.s3.CreateBucket(ctx, in)
	if hasCode(err, "BucketAlreadyOwnedByYou") || hasCode(err, "BucketAlreadyExists") {
		return nil
	}
	return err
}

func (a *Archive) connectError(err error) error {
	return &ConnectError{Endpoint: cmp.Or(a.endpoint, "AWS region "+a.region), Bucket: a.bucket, Hint: hintFor(err), Err: err}
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
