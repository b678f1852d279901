package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/tools"
)

type number struct {
	N int `json:"n" jsonschema:"A number."`
}

// call runs one call of a tool as its workflow does.
func call(t *testing.T, tool tools.Tool, arguments string, around ...tools.Middleware) (string, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	tools.Register(env, around, tool)
	offered := tools.Offer("numbers", tool)[0]
	env.ExecuteWorkflow(tools.Workflow, tools.Call{SessionID: "s", CallID: "c", Tool: offered, Arguments: json.RawMessage(arguments)})
	require.True(t, env.IsWorkflowCompleted())
	if err := env.GetWorkflowError(); err != nil {
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		require.True(t, app.NonRetryable(), "nothing is made again by itself: %v", err)
		return "", errors.New(app.Message())
	}
	var out json.RawMessage
	require.NoError(t, env.GetWorkflowResult(&out))
	return string(out), nil
}

func newTool(t *testing.T, do func(n int) (any, error)) tools.Tool {
	t.Helper()
	tool, err := tools.New("double", "Doubles.", func(_ context.Context, _ tools.Call, in number) (any, error) { return do(in.N) })
	require.NoError(t, err)
	return tool
}

// A handler has its arguments decoded, within the middleware; what it can't do is an error of the
// call.
func TestR132Handlers(t *testing.T) {
	t.Parallel()
	double := newTool(t, func(n int) (any, error) { return map[string]int{"double": 2 * n}, nil })
	var seen []string
	note := func(name string) tools.Middleware {
		return func(ctx context.Context, call tools.Call, next tools.Handler) (any, error) {
			seen = append(seen, name+" "+call.Tool.Name)
			return next(ctx, call)
		}
	}
	out, err := call(t, double, `{"n":4}`, note("outer"), note("inner"))
	require.NoError(t, err)
	require.JSONEq(t, `{"double":8}`, out)
	require.Equal(t, []string{"outer double", "inner double"}, seen)
	refuse := func(context.Context, tools.Call, tools.Handler) (any, error) { return nil, errors.New("not today") }
	_, err = call(t, double, `{"n":4}`, refuse)
	require.EqualError(t, err, "not today")

	for arguments, reason := range map[string]string{`{"n":"four"}`: "n", `{}`: "n", `{"n":1,"m":2}`: "m", `[]`: "object"} {
		_, err := call(t, double, arguments)
		require.ErrorContains(t, err, reason, arguments)
	}
	for reason, do := range map[string]func(int) (any, error){
		"no number":   func(int) (any, error) { return nil, errors.New("no number") },
		"out of luck": func(int) (any, error) { panic("out of luck") },
		"at most":     func(int) (any, error) { return strings.Repeat("x", 2<<20), nil },
		"chan":        func(int) (any, error) { return make(chan int), nil },
	} {
		_, err := call(t, newTool(t, do), `{"n":1}`)
		require.ErrorContains(t, err, reason)
	}
	_, err = tools.New("x", "d", func(context.Context, tools.Call, int) (int, error) { return 0, nil })
	require.ErrorAs(t, err, new(*session.InvalidError), "arguments are an object")
	require.NoError(t, session.Options{Agent: "a", Tools: tools.Offer("numbers", double)}.Validate())
}

// A tool whose schema no model's server would take is refused.
func TestR132BadSchemas(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`{"Type":"object"}`, `{"type":"array"}`, `{"type":"object","properties":{"a":5}}`, `{"type":"object","anyOf":[]}`, `5`, `{`, `{"type":"object","title":"` + "\xff" + `"}`,
	} {
		o := session.Options{Agent: "a", Tools: []session.Tool{{Name: "x", Description: "d", TaskQueue: "q", Input: json.RawMessage(schema)}}}
		require.ErrorAs(t, o.Validate(), new(*session.InvalidError), schema)
	}
	o := session.Options{Agent: "a", Tools: []session.Tool{{Name: "x", Description: "d", TaskQueue: "q", Input: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)}}}
	require.NoError(t, o.Validate())
}
