package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/sojourn-run/sojourn/internal/heartbeat"
	"github.com/sojourn-run/sojourn/session"
)

// Call is one call of a tool.
type Call struct {
	// SessionID is the session whose agent calls, and CallID the call: the same if it is made again.
	SessionID string       `json:"sessionId"`
	CallID    string       `json:"callId"`
	Tool      session.Tool `json:"tool"`
	// Arguments match the tool's schema.
	Arguments json.RawMessage `json:"arguments"`
}

// Tool is a tool with its handler. Its embedded fields may be changed before it is registered and
// offered; TaskQueue is set by [Offer].
type Tool struct {
	session.Tool
	schema *jsonschema.Resolved
	run    Handler
}

// Handler runs a call and returns its result, which is encoded as JSON. Its error is told to the
// agent, and the call is not made again. ctx ends with the call's time.
type Handler func(ctx context.Context, call Call) (any, error)

// Middleware is called in place of a handler, and continues by next.
type Middleware func(ctx context.Context, call Call, next Handler) (any, error)

// New returns a tool whose arguments are decoded into an In, from which the tool's schema is made: the
// fields by their JSON names, with the tag jsonschema as description. It fails for a type that no
// JSON object can have.
func New[In, Out any](name, description string, handle func(ctx context.Context, call Call, in In) (Out, error)) (Tool, error) {
	schema, err := jsonschema.For[In](nil)
	if err != nil {
		return Tool{}, fmt.Errorf("tool %s: schema of its arguments: %w", name, err)
	}
	if schema.Type != "object" {
		return Tool{}, session.Invalid("In", fmt.Sprintf("is of type %s in JSON", schema.Type), "a struct, or a map")
	}
	data, err := json.Marshal(schema)
	if err != nil {
		return Tool{}, fmt.Errorf("tool %s: schema of its arguments: %w", name, err)
	}
	t := Tool{Tool: session.Tool{Name: name, Description: description, Input: data, Heartbeats: true}}
	if t.schema, err = schema.Resolve(nil); err != nil {
		return Tool{}, fmt.Errorf("tool %s: schema of its arguments: %w", name, err)
	}
	t.run = func(ctx context.Context, call Call) (any, error) {
		var in In
		if err := json.Unmarshal(call.Arguments, &in); err != nil {
			return nil, fmt.Errorf("arguments: %w", err)
		}
		return handle(ctx, call, in)
	}
	return t, nil
}

// Offer returns the tools as options of sessions, whose calls come to a task queue.
func Offer(taskQueue string, all ...Tool) []session.Tool {
	var out []session.Tool
	for _, t := range all {
		t.Tool.TaskQueue = taskQueue
		out = append(out, t.Tool)
	}
	return out
}

// ActivityType returns the name of the activity that runs the calls of a tool.
func ActivityType(tool string) string { return "sojourn-tool-" + tool }

// failed is the type of a handler's error.
const failed = "ToolFailed"

// Register has a worker run the tools' calls, within the middleware, the first one outermost. It
// panics if the worker has one of them already, as RegisterActivity does.
func Register(w worker.ActivityRegistry, around []Middleware, all ...Tool) {
	for _, t := range all {
		run := t.checked
		for i := len(around) - 1; i >= 0; i-- {
			m, next := around[i], run
			run = func(ctx context.Context, call Call) (any, error) { return m(ctx, call, next) }
		}
		w.RegisterActivityWithOptions(func(ctx context.Context, call Call) (json.RawMessage, error) {
			defer heartbeat.Keep(ctx)()
			out, err := result(ctx, call, run)
			switch {
			case err == nil:
				return out, nil
			case !errors.Is(context.Cause(ctx), worker.ErrWorkerShutdown):
				return nil, final(err)
			case call.Tool.Idempotent:
				return nil, fmt.Errorf("the program ends: %w", err) // it is made again
			}
			return nil, final(errUnknown)
		}, activity.RegisterOptions{Name: ActivityType(t.Name)})
	}
}

// maxResult bounds a result, as JSON, in bytes: Temporal takes no more than twice that.
const maxResult = 1 << 20

// result runs a call and returns its result as JSON. A handler that panics has failed.
func result(ctx context.Context, call Call, run Handler) (data json.RawMessage, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("the tool failed: %v", why)
		}
	}()
	out, err := run(ctx, call)
	if err != nil {
		return nil, err
	}
	if data, err = json.Marshal(out); err == nil && len(data) > maxResult {
		err = fmt.Errorf("the result is %d bytes as JSON, at most %d are allowed", len(data), maxResult)
	}
	return data, err
}

// checked runs a call whose arguments match the schema.
func (t Tool) checked(ctx context.Context, call Call) (any, error) {
	var args any
	if err := json.Unmarshal(call.Arguments, &args); err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	if err := t.schema.Validate(args); err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	return t.run(ctx, call)
}

// final returns an error that no retry follows: what the handler did can't be undone by another try.
func final(err error) error {
	if app := new(temporal.ApplicationError); errors.As(err, &app) && app.NonRetryable() {
		return err
	}
	return temporal.NewNonRetryableApplicationError(err.Error(), failed, err)
}
