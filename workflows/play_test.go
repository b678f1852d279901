package workflows

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sojourn-run/sojourn/session"
)

// start is the start of every play on the workflow's clock.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// play is one run of the session workflow "s1" in a test environment: its steps are one
// second of workflow time apart.
type play struct {
	*testing.T
	env *testsuite.TestWorkflowEnvironment
	w   *world
	in  session.Input
	at  time.Duration
}

// newPlay creates a play; change may change the workflow's input.
func newPlay(t *testing.T, change ...func(*session.Input)) *play {
	t.Helper()
	in := session.Input{SessionID: "s1", Options: session.Options{Agent: "claude"}, CreatedAt: start}
	for _, f := range change {
		f(&in)
	}
	return playOn(t, newWorld(), in)
}

// playOn continues in an existing world.
func playOn(t *testing.T, w *world, in session.Input) *play {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetStartTime(start.Add(time.Duration(w.plays) * 24 * time.Hour))
	w.plays++
	env.SetTestTimeout(time.Minute)
	// A busy machine is no deadlock.
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: in.SessionID, TaskQueue: session.TaskQueue})
	env.RegisterWorkflowWithOptions(Session, workflow.RegisterOptions{Name: session.WorkflowType})
	for name, f := range w.activities() {
		env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(w.interruptElsewhere).Maybe()
	env.OnRequestCancelExternalWorkflow(mock.Anything, mock.Anything, mock.Anything).Return(w.cancelElsewhere).Maybe()
	w.mu.Lock()
	w.complete, w.now = env.CompleteActivity, env.Now
	w.nudge = func(id string) error {
		if id == in.SessionID {
			return nil
		}
		return env.SignalWorkflowByID(id, "nudge", nil)
	}
	w.mu.Unlock()
	return &play{T: t, env: env, w: w, in: in}
}

// then adds steps, each a second after the previous one.
func (p *play) then(steps ...func()) {
	for _, f := range steps {
		p.after(time.Second, f)
	}
}

// after adds a step some time after the previous one.
func (p *play) after(d time.Duration, f func()) {
	p.at += d
	p.env.RegisterDelayedCallback(f, p.at)
}

// run plays everything, then closes the session, and requires it to complete.
func (p *play) run() session.Output {
	p.Helper()
	p.then(func() { p.update(session.UpdateClose) })
	return p.runOpen()
}

// runOpen plays until the steps themselves end the session.
func (p *play) runOpen() session.Output {
	p.Helper()
	p.env.ExecuteWorkflow(session.WorkflowType, p.in)
	require.True(p, p.env.IsWorkflowCompleted())
	require.NoError(p, p.env.GetWorkflowError())
	var out session.Output
	require.NoError(p, p.env.GetWorkflowResult(&out))
	return out
}

// answer is the result of an update.
type answer struct {
	refused  error
	accepted bool
	done     bool
	value    any
	err      error
}

func (a *answer) callbacks() *testsuite.TestUpdateCallback {
	return &testsuite.TestUpdateCallback{
		OnAccept:   func() { a.accepted = true },
		OnReject:   func(err error) { a.refused = err },
		OnComplete: func(v any, err error) { a.done, a.value, a.err = true, v, err },
	}
}

func (p *play) update(name string, args ...any) *answer {
	a := &answer{}
	p.env.UpdateWorkflow(name, "", a.callbacks(), args...)
	return a
}

// updateChild is update for a child session.
func (p *play) updateChild(id, name string, args ...any) *answer {
	p.Helper()
	a := &answer{}
	require.NoError(p, p.env.UpdateWorkflowByID(id, name, name+id, a.callbacks(), args...))
	return a
}

// send sends a text with its own message id.
func (p *play) send(id, text string) *answer {
	return p.update(session.UpdateSend, session.Message{ID: id, Text: text})
}

// valueOf returns an update's result.
func valueOf[T any](t *testing.T, a *answer) T {
	t.Helper()
	require.NoError(t, a.refused)
	require.True(t, a.done, "the update is not done")
	require.NoError(t, a.err)
	v, ok := a.value.(T)
	require.True(t, ok, "the update returned %T", a.value)
	return v
}

func (p *play) receipt(a *answer) session.Receipt {
	p.Helper()
	return valueOf[session.Receipt](p.T, a)
}

func (p *play) snapshot() session.Snapshot {
	p.Helper()
	return queried[session.Snapshot](p, session.QuerySnapshot)
}

func (p *play) inspect() session.Inspection {
	p.Helper()
	return queried[session.Inspection](p, session.QueryInspect)
}

func queried[T any](p *play, name string, args ...any) T {
	p.Helper()
	v, err := p.env.QueryWorkflow(name, args...)
	require.NoError(p, err)
	var out T
	require.NoError(p, v.Get(&out))
	return out
}

// signal sends a payload as it is.
func (p *play) signal(name string, encoding string, data string) {
	p.env.SignalWorkflow(name, payload(encoding, data))
}

// signalText sends a message as the Web UI does: a JSON object.
func (p *play) signalText(id, text string) {
	p.env.SignalWorkflow(session.SignalMessage, session.Message{ID: id, Text: text})
}

func payload(encoding, data string) converter.RawValue {
	pl, err := converter.GetDefaultDataConverter().ToPayload(json.RawMessage("null"))
	if err != nil {
		panic(err)
	}
	pl.Metadata = map[string][]byte{converter.MetadataEncoding: []byte(encoding)}
	pl.Data = []byte(data)
	return converter.NewRawValue(pl)
}

func ptr[T any](v T) *T { return &v }

// quiet is a Temporal logger that discards everything.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

func bag(key, value string) map[string]json.RawMessage {
	return map[string]json.RawMessage{key: json.RawMessage(value)}
}

// fieldsOf returns the JSON fields of a struct.
func fieldsOf(t *testing.T, v any) map[string]json.RawMessage {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &fields))
	return fields
}

// keysOf returns the keys of a map in order.
func keysOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
