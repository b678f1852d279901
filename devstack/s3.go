package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

const (
	// maxS3Connections and maxS3Requests must be set, the gateway has no
	// defaults. Far above what one machine's workers open, far below its limit
	// of open files.
	maxS3Connections = 4096
	maxS3Requests    = 1024
	// maxS3Parts is S3's own limit of parts in one upload.
	maxS3Parts = 10000
)

// startS3 runs the S3 gateway over the data folder, where every bucket is a
// folder and every object a file, and makes the bucket.
func (s *stack) startS3(ctx context.Context) (func(), error) {
	store, err := s.objectStore()
	if err != nil {
		return nil, err
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	s.s3.Release()
	go func() { ended <- embedgw.RunVersityGW(serving, store, s.gatewayConfig()) }()
	stop := func() {
		cancel()
		<-ended
	}
	if err := waitForHTTP(ctx, s.report.S3Endpoint, ended); err != nil {
		cancel()
		return nil, err
	}
	ended = s.watch(serving, "the S3 gateway", ended)
	return stop, s.makeBucket(ctx)
}

// objectStore keeps object metadata in extended attributes, or in separate files
// if the file system has none. A folder keeps its first choice: the metadata of
// its objects would be lost otherwise.
func (s *stack) objectStore() (*posix.Posix, error) {
	root, err := s.dir.Folder("s3")
	if err != nil {
		return nil, err
	}
	_, err = os.Stat(s.dir.Path("s3-metadata"))
	if began := err == nil; !began && (meta.XattrMeta{}).Test(root) == nil {
		return openPosix(root, meta.XattrMeta{}, "")
	}
	metadata, err := s.dir.Folder("s3-metadata")
	if err != nil {
		return nil, err
	}
	sidecar, err := meta.NewSideCar(metadata)
	if err != nil {
		return nil, fmt.Errorf("open metadata folder: %w", err)
	}
	return openPosix(root, sidecar, metadata)
}

func openPosix(root string, m meta.MetadataStorer, sidecar string) (*posix.Posix, error) {
	store, err := posix.New(root, m, posix.PosixOpts{SideCarDir: sidecar})
	if err != nil {
		return nil, fmt.Errorf("open object folder: %w", err)
	}
	return store, nil
}

func (s *stack) gatewayConfig() *embedgw.Config {
	root := auth.Account{Access: s.keys.AccessKeyID, Secret: s.keys.SecretAccessKey, Role: auth.RoleAdmin}
	return &embedgw.Config{
		// The single account is also its default, but with a remark.
		IAMService:        auth.NewIAMServiceSingle(root),
		RootUserAccess:    s.keys.AccessKeyID,
		RootUserSecret:    s.keys.SecretAccessKey,
		Region:            region,
		Ports:             []string{joinPort(s.opts.IP, s.s3.Number)},
		MaxConnections:    maxS3Connections,
		MaxRequests:       maxS3Requests,
		MultipartMaxParts: maxS3Parts,
		KeepAlive:         true,
		Quiet:             true,
	}
}

// makeBucket goes through the gateway, which also verifies the keys.
func (s *stack) makeBucket(ctx context.Context) error {
	client := awss3.New(awss3.Options{
		BaseEndpoint: aws.String(s.report.S3Endpoint),
		Region:       region,
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider(s.keys.AccessKeyID, s.keys.SecretAccessKey, ""),
	})
	_, err := client.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: aws.String(bucket)})
	if _, ours := errors.AsType[*types.BucketAlreadyOwnedByYou](err); ours {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make bucket %s: %w", bucket, err)
	}
	return nil
}
