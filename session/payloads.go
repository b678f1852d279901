package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/aws/s3driver"
	"go.temporal.io/sdk/converter"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/sojourn-run/sojourn/archive"
)

// Sizes of payloads, in bytes.
const (
	// InlinePayloadBytes is the size from which a payload is stored in the archive
	// before it reaches Temporal. Typed text is usually smaller, and so stays
	// readable in the Web UI; larger bodies would fill a run's history, of which
	// Temporal keeps 50 MB at most.
	InlinePayloadBytes = 32 << 10
	// maxPayloadBytes bounds a stored payload: the largest is the state that
	// continue-as-new carries, with a full queue.
	maxPayloadBytes = (jsonGrowth + 1) * MaxQueueBytes
)

// EncodingUnreadable is the encoding of the replacement for a payload that is not
// in the archive; its data is the reason.
const EncodingUnreadable = "sojourn/unreadable"

// WithPayloads returns the options of a Temporal client of sessions: payloads from
// [InlinePayloadBytes] on are stored in the archive, and history has a reference.
//
//	options, err := session.WithPayloads(client.Options{HostPort: address}, store)
//	temporal, err := client.Dial(options)
//
// A client without it can send messages of up to 2 MB, and can't read large
// replies. o must have no external storage set.
func WithPayloads(o client.Options, store *archive.Archive) (client.Options, error) {
	if len(o.ExternalStorage.Drivers) > 0 {
		return o, Invalid("options.ExternalStorage", "is set", "none: payloads go to the archive")
	}
	driver, err := newPayloadDriver(store)
	if err != nil {
		return o, err
	}
	o.ExternalStorage = converter.ExternalStorage{Drivers: []converter.StorageDriver{driver}, DriverSelector: driver, PayloadSizeThreshold: InlinePayloadBytes}
	check, err := converter.NewPayloadCodecGRPCClientInterceptor(converter.PayloadCodecGRPCClientInterceptorOptions{
		Codecs: []converter.PayloadCodec{referenceCheck{}},
	})
	if err != nil {
		return o, fmt.Errorf("payload storage: %w", err)
	}
	o.ConnectionOptions.DialOptions = append(slices.Clone(o.ConnectionOptions.DialOptions), grpc.WithChainUnaryInterceptor(check))
	return o, nil
}

// driverName names the archive in history's references.
const driverName = "sojourn"

func newPayloadDriver(store *archive.Archive) (payloadDriver, error) {
	if store == nil {
		return payloadDriver{}, Invalid("store", "is nil", "an archive")
	}
	payloads := store.Payloads()
	inner, err := s3driver.NewDriver(s3driver.Options{
		Client: payloadClient{payloads}, Bucket: s3driver.StaticBucket(payloads.Bucket()),
		DriverName: driverName, MaxPayloadSize: maxPayloadBytes,
	})
	if err != nil {
		return payloadDriver{}, fmt.Errorf("payload storage: %w", err)
	}
	return payloadDriver{inner}, nil
}

// referenceCheck replaces references on which the SDK would fail before it asks a driver:
// anyone can send one in a signal, and a failing workflow task is retried forever.
type referenceCheck struct{}

// Encode changes nothing.
func (referenceCheck) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	return payloads, nil
}

// Decode replaces references to other drivers.
func (referenceCheck) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	for i, p := range payloads {
		if _, err := referenceOf(p); err != nil {
			payloads[i] = unreadable(err)
		}
	}
	return payloads, nil
}

// References to stored payloads: by type, and by an encoding that early releases of the SDK
// wrote and its newest ones still read.
const (
	referenceType  = "temporal.api.sdk.v1.ExternalStorageReference"
	earlyReference = "json/external-storage-reference"
)

// referenceOf returns where a payload is stored; nil if it is not a reference.
func referenceOf(p *commonpb.Payload) (*sdkpb.ExternalStorageReference, error) {
	if string(p.GetMetadata()[converter.MetadataEncoding]) == earlyReference {
		return nil, errors.New("a reference of an early form, which is not in use here")
	}
	if string(p.GetMetadata()[converter.MetadataMessageType]) != referenceType {
		return nil, nil
	}
	ref := &sdkpb.ExternalStorageReference{}
	if err := converter.GetDefaultDataConverter().FromPayload(p, ref); err != nil {
		return nil, err
	}
	if ref.GetDriverName() != driverName {
		return nil, fmt.Errorf("a reference to the store %q, which is not in use here", ref.GetDriverName())
	}
	return ref, nil
}

func unreadable(why error) *commonpb.Payload {
	return &commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(EncodingUnreadable)}, Data: []byte(why.Error()),
	}
}

// payloadDriver is the SDK's S3 driver, bounded by the SDK's limits and restricted to
// sessions. A reference to a missing payload is not an error, for the same reason as in
// referenceCheck.
type payloadDriver struct{ converter.StorageDriver }

// SelectDriver leaves the payloads of other workflows inline: nothing would
// ever delete them.
func (d payloadDriver) SelectDriver(ctx converter.StorageDriverSelectContext, _ *commonpb.Payload) (converter.StorageDriver, error) {
	w, ok := ctx.Target.(converter.StorageDriverWorkflowInfo)
	// A client that only signals a workflow does not have its type.
	if !ok || w.WorkflowType != "" && w.WorkflowType != WorkflowType || ValidateID("sessionId", w.WorkflowID) != nil {
		return nil, nil
	}
	return d, nil
}

// Store stores payloads one by one, within the SDK's limit.
func (d payloadDriver) Store(ctx converter.StorageDriverStoreContext, payloads []*commonpb.Payload) ([]converter.StorageDriverClaim, error) {
	claims := make([]converter.StorageDriverClaim, len(payloads))
	group, running := errgroup.WithContext(ctx.Context)
	one := ctx
	one.Context = running
	for i, p := range payloads {
		group.Go(func() error {
			return ctx.GetLimiter().Permit(running, p, func() error {
				stored, err := d.StorageDriver.Store(one, []*commonpb.Payload{p})
				if err == nil {
					claims[i] = stored[0]
				}
				return err
			})
		})
	}
	return claims, group.Wait()
}

// Retrieve reads payloads one by one, within the SDK's limit.
func (d payloadDriver) Retrieve(ctx converter.StorageDriverRetrieveContext, claims []converter.StorageDriverClaim) ([]*commonpb.Payload, error) {
	payloads := make([]*commonpb.Payload, len(claims))
	group, running := errgroup.WithContext(ctx.Context)
	one := ctx
	one.Context = running
	for i, c := range claims {
		group.Go(func() error {
			return ctx.GetLimiter().Permit(running, c, func() (err error) {
				payloads[i], err = d.retrieve(one, c)
				return err
			})
		})
	}
	return payloads, group.Wait()
}

func (d payloadDriver) retrieve(ctx converter.StorageDriverRetrieveContext, claim converter.StorageDriverClaim) (*commonpb.Payload, error) {
	found, err := d.StorageDriver.Retrieve(ctx, []converter.StorageDriverClaim{claim})
	if away, ok := errors.AsType[*storeAwayError](err); ok {
		return nil, away
	}
	if err != nil {
		return unreadable(err), nil
	}
	return found[0], nil
}

// payloadClient distinguishes a store that does not respond from one that does
// not have the payload.
type payloadClient struct{ *archive.Payloads }

// GetObject returns a payload's bytes.
func (c payloadClient) GetObject(ctx context.Context, bucket, key string) ([]byte, error) {
	data, err := c.Payloads.GetObject(ctx, bucket, key)
	if err != nil && !errors.Is(err, archive.ErrNotFound) && !errors.Is(err, archive.ErrInvalid) {
		return nil, &storeAwayError{err}
	}
	return data, err
}

// storeAwayError is a transient failure to read a payload.
type storeAwayError struct{ err error }

func (e *storeAwayError) Error() string { return e.err.Error() }
func (e *storeAwayError) Unwrap() error { return e.err }

// InputOf returns the input that a session's workflow was started with, from its
// history, which has a reference in place of a large payload.
func InputOf(ctx context.Context, store *archive.Archive, history *commonpb.Payloads) (Input, error) {
	var in Input
	payloads, err := inline(ctx, store, history)
	if err != nil {
		return in, fmt.Errorf("read a session's input: %w", err)
	}
	return in, converter.GetDefaultDataConverter().FromPayloads(&commonpb.Payloads{Payloads: payloads}, &in)
}

// inline returns payloads of a history with the references replaced by the stored
// payloads.
func inline(ctx context.Context, store *archive.Archive, history *commonpb.Payloads) ([]*commonpb.Payload, error) {
	payloads := slices.Clone(history.GetPayloads())
	for i, p := range payloads {
		ref, err := referenceOf(p)
		if err == nil && ref != nil {
			payloads[i], err = load(ctx, store, ref)
		}
		if err != nil {
			return nil, err
		}
	}
	return payloads, nil
}

func load(ctx context.Context, store *archive.Archive, ref *sdkpb.ExternalStorageReference) (*commonpb.Payload, error) {
	driver, err := newPayloadDriver(store)
	if err != nil {
		return nil, err
	}
	return driver.retrieve(converter.StorageDriverRetrieveContext{Context: ctx}, converter.StorageDriverClaim{ClaimData: ref.GetClaimData()})
}
