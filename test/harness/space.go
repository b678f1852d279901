package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/test/modelsim"
)

// Space is a Temporal namespace of a stack, with clients and a model of its own.
// Workers of one space see no session of another, so tests in different spaces can run
// at the same time.
type Space struct {
	Namespace string
	Model     *modelsim.Server
	ModelURL  string

	Temporal client.Client
	Log      *stream.Log
	Archive  *archive.Archive
	Client   *session.Client

	stack *Stack
}

// retention is how long a test's namespace keeps closed workflows.
const retention = 24 * time.Hour

// NewSpace creates a namespace, whose name must be new in the stack, and connects to
// it. The caller closes the space.
func (s *Stack) NewSpace(ctx context.Context, namespace string) (*Space, error) {
	_, err := s.Temporal.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(retention),
	})
	if err != nil {
		return nil, fmt.Errorf("make namespace %s: %w", namespace, err)
	}
	if _, err := session.EnsureSearchAttributes(ctx, s.Temporal, namespace); err != nil {
		return nil, fmt.Errorf("namespace %s: %w", namespace, err)
	}
	return s.connect(ctx, namespace)
}

// connect connects to a namespace and starts its model. After an error nothing is left
// running.
func (s *Stack) connect(ctx context.Context, namespace string) (*Space, error) {
	space := &Space{Namespace: namespace, stack: s}
	if err := errors.Join(space.startModel(ctx), space.dial(ctx)); err != nil {
		space.Close()
		return nil, err
	}
	return space, nil
}

func (s *Space) startModel(ctx context.Context) (err error) {
	s.Model = modelsim.New(modelsim.Options{})
	s.ModelURL, err = s.Model.Start(context.WithoutCancel(ctx), "127.0.0.1:0")
	return err
}

func (s *Space) dial(ctx context.Context) (err error) {
	env := s.stack.Env
	if s.Archive, err = archive.Open(ctx, archive.Options{Bucket: env["SOJOURN_BUCKET"], Namespace: s.Namespace}); err != nil {
		return err
	}
	o, err := session.WithPayloads(client.Options{
		HostPort: env["TEMPORAL_ADDRESS"], Namespace: s.Namespace, Logger: quiet{},
		ConnectionOptions: client.ConnectionOptions{GrpcCompression: &client.GrpcCompressionNone{}}, // as the product's for loopback
	}, s.Archive)
	if err != nil {
		return err
	}
	if s.Temporal, err = client.DialContext(ctx, o); err != nil {
		return err
	}
	if s.Log, err = stream.Dial(ctx, env["NATS_URL"], stream.Options{Namespace: s.Namespace, Access: s.stack.NATSAccess()}); err != nil {
		return err
	}
	s.Client, err = session.NewClient(session.ClientOptions{
		Temporal: s.Temporal, Namespace: s.Namespace, Stream: s.Log, Archive: s.Archive, Agents: builtin.Registry(),
		Profile: func(_ context.Context, id string) error {
			return session.Invalid("profile", fmt.Sprintf("%q is unknown", id), "no profile: this stack has none")
		},
	})
	return err
}

// Close ends the model and the connections. The namespace remains.
func (s *Space) Close() {
	if s.Temporal != nil {
		s.Temporal.Close()
	}
	if s.Log != nil {
		s.Log.Close()
	}
	if s.Model != nil {
		s.Model.Close()
	}
}

// quiet is a Temporal logger that discards everything.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}
