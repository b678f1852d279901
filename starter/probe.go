package starter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// streamName is the default name of the JetStream stream, see package stream.
const streamName = "SOJOURN"

const hintS3 = "start the S3 store (sojourn-devstack is one), or set AWS_ENDPOINT_URL_S3 to one that runs"

// The probes only read; setup changes things, and probes first.

// namespaceKnown queries Temporal for the namespace.
func namespaceKnown(ctx context.Context, t client.Client, namespace string) error {
	_, err := t.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	return err
}

// missingAttributes returns the search attributes that the namespace does not
// have; one of another type is an error.
func missingAttributes(ctx context.Context, t client.Client, namespace string) (map[string]enumspb.IndexedValueType, error) {
	missing, err := session.MissingSearchAttributes(ctx, t, namespace)
	return missing, attributeFault(err)
}

// attributeFault adds to an error what an operator can do about it.
func attributeFault(err error) error {
	if wrong, ok := errors.AsType[*session.AttributeTypeError](err); ok {
		return failed("remove it (temporal operator search-attribute remove) and run sojourn setup", "%s", wrong)
	}
	return err
}

// natsState is what NATS has.
type natsState struct {
	address string
	stream  bool
	bytes   uint64
}

// probeNATS queries JetStream and the stream, and makes neither.
func probeNATS(ctx context.Context, url string, access stream.Access) (natsState, error) {
	nc, err := stream.Connect(url, access, nats.Timeout(2*time.Second), nats.NoReconnect())
	if err != nil {
		return natsState{}, err
	}
	defer nc.Close()
	state := natsState{address: stream.Redacted(nc.ConnectedUrl())}
	js, err := jetstream.New(nc)
	if err != nil {
		return state, err
	}
	s, err := js.Stream(ctx, streamName)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return state, nil
	case err != nil:
		return state, &stream.UnreachableError{Addr: stream.Redacted(url), Hint: "start the server with JetStream on (nats-server -js)", Err: err}
	}
	state.stream, state.bytes = true, s.CachedInfo().State.Bytes
	return state, nil
}

// probeStore reports whether there is the archive's bucket or folder.
func (c *cli) probeStore(ctx context.Context) (found bool, err error) {
	if err := c.dialStore(ctx); err != nil {
		return false, err
	}
	a, err := c.archive(ctx)
	if err != nil {
		return false, err
	}
	if found, err = a.Exists(ctx); err != nil {
		return false, c.storeFault(err)
	}
	return found, nil
}

// dialStore connects to a store that is reached directly: its client would retry
// for long before it reports that nothing listens.
func (c *cli) dialStore(ctx context.Context) error {
	endpoint := cmp.Or(c.env.Get("AWS_ENDPOINT_URL_S3"), c.env.Get("AWS_ENDPOINT_URL"))
	u, err := url.Parse(endpoint)
	if err != nil || u.Port() == "" || c.env.Get("SOJOURN_ARCHIVE_DIR") != "" {
		return nil
	}
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u}); err != nil || proxy != nil {
		return nil
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return failed(hintS3, "S3 (%s) is not reachable: %s", c.storeAddress(), networkReason(err))
	}
	return conn.Close()
}

// storeFault returns an error of the archive's store as one line.
func (c *cli) storeFault(err error) error {
	if send, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return failed(hintS3, "S3 (%s) is not reachable: %s", c.storeAddress(), networkReason(send.Err))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return failed(hintS3, "S3 (%s) is not reachable: no answer within %s", c.storeAddress(), connectTimeout)
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return failed("check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and SOJOURN_BUCKET",
			"S3 (%s) refuses: %s", c.storeAddress(), api)
	}
	return err
}

func joinNames(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
