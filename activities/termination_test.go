package activities

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/effects"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/reducer"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// terminatedRun is Temporal's description of a session whose only run was terminated.
type terminatedRun struct {
	client.Client
	run session.TerminatedRun
}

func (t terminatedRun) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: t.run.SessionID, RunId: t.run.RunID}, Status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED,
	}}, nil
}

// A session whose host was lost before it was terminated has no sandbox to end. What it had
// streamed and not archived is kept all the same: of a turn that had ended while S3 was
// away, and of one that was running.
func TestTerminatedAfterItsHostWasLost(t *testing.T) {
	t.Parallel()
	block := func(id string, kind event.BlockType, content string) event.Payload {
		return event.BlockUpsert{Block: event.Block{ID: id, Type: kind, Status: event.StatusComplete, Content: &content, Source: event.SourceRunner}}
	}
	q1, q2 := event.Query{ExecutionID: "x1", MessageIDs: []string{"m1"}}, event.Query{ExecutionID: "x2", MessageIDs: []string{"m2"}}
	ended := []event.Payload{
		event.QueryStarted{Query: q1}, block("m1", event.BlockUserMessage, "one"), block("b1", event.BlockAssistantText, "answer"), event.QueryCompleted{Query: q1},
	}
	running := slices.Clip([]event.Payload{event.QueryStarted{Query: q2}, block("m2", event.BlockUserMessage, "two"), block("b2", event.BlockAssistantText, "half an answer"), event.MetadataUpdate{Usage: &event.Usage{InputTokens: 7}}})
	call := event.BlockUpsert{Block: event.Block{ID: "c1", Type: event.BlockToolUse, Status: event.StatusComplete, ToolName: "Bash", Source: event.SourceRunner}}
	pending := &contract.PendingMessage{ExecutionID: "x2", MessageID: "m2", Title: "two"}
	for name, c := range map[string]struct {
		streamed []event.Payload
		deleted  bool
		// state returns what the workflow knew, by the stream's end before the turn and
		// behind what was streamed.
		state  func(before, end uint64) contract.FinalState
		want   []string
		failed bool
		used   int64
	}{
		"a turn had ended while S3 was away": {streamed: ended, want: []string{"m1: one", "b1: answer"}, state: func(before, end uint64) contract.FinalState {
			u := &session.Unarchived{AfterSeq: before, Epoch: 2, Messages: []session.Message{{ID: "m1", Text: "one"}}}
			return contract.FinalState{Record: session.Record{LastSeq: end, LastBlockID: "b1"}, Unarchived: u}
		}},
		"nothing was lost": {failed: true, state: func(_, end uint64) contract.FinalState {
			return contract.FinalState{Record: session.Record{LastSeq: end}, Running: pending}
		}},
		"and its stream was deleted": {streamed: ended, deleted: true, want: []string{"m1: one"}, state: func(before, end uint64) contract.FinalState {
			u := &session.Unarchived{AfterSeq: before, Epoch: 2, Messages: []session.Message{{ID: "m1", Text: "one"}}}
			return contract.FinalState{Record: session.Record{LastSeq: end, LastBlockID: "b1"}, Unarchived: u}
		}},
		"a turn was running": {used: 7, streamed: running, want: []string{"m2: two", "b2: half an answer"}, failed: true, state: func(before, end uint64) contract.FinalState {
			return contract.FinalState{Record: session.Record{LastSeq: end}, Running: pending, Lost: &session.Lost{Host: "h1", Times: 1, AfterSeq: before}}
		}},
		"a turn had ended before it was reported": {used: 7, streamed: append(running, event.QueryCompleted{Query: q2}), want: []string{"m2: two", "b2: half an answer"}, state: func(before, end uint64) contract.FinalState {
			return contract.FinalState{Record: session.Record{LastSeq: end}, Running: pending, Lost: &session.Lost{Host: "h1", Times: 1, AfterSeq: before}}
		}},
		"a call was running": {used: 7, streamed: append(running, call), want: []string{"m2: two", "b2: half an answer", "c1: ", "c1: unknown"}, failed: true, state: func(before, end uint64) contract.FinalState {
			return contract.FinalState{Record: session.Record{LastSeq: end}, Running: pending, Lost: &session.Lost{Host: "h1", Times: 1, AfterSeq: before}}
		}},
		"a turn was parked": {streamed: append(running, call), want: []string{"m2: two", "b2: half an answer", "c1: "}, failed: true, state: func(before, end uint64) contract.FinalState {
			asked := &permission.Parked{Requests: []permission.Request{{ID: "r1", ToolUseID: "c1"}}}
			return contract.FinalState{Record: session.Record{LastSeq: end}, Running: pending, Lost: &session.Lost{Host: "h1", Times: 1, Parks: 1, Parked: asked, AfterSeq: before}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const id = "s1"
			log, store := fresh(t)
			run := session.TerminatedRun{SessionID: id, RunID: "r1"}
			s := &Session{Stream: log, Archive: store, Agents: builtin.Registry()}
			begun, err := s.Begin(t.Context(), contract.BeginInput{Session: session.Input{SessionID: id, Options: session.Options{Agent: "claude"}}})
			require.NoError(t, err)
			w, err := log.Writer(t.Context(), id, stream.Fence{Epoch: begun.Epoch, Attempt: 1}, stream.WriterOptions{LastSeq: begun.LastSeq})
			require.NoError(t, err)
			var events []event.Event
			for _, p := range c.streamed {
				events = append(events, fromServer(p))
			}
			_, err = w.Append(t.Context(), events, stream.Position{})
			require.NoError(t, err)
			end := w.Tail().LastSeq
			if c.deleted {
				require.NoError(t, log.Purge(t.Context(), id))
			}
			in := contract.RecordTerminationInput{Run: run, Termination: session.Terminated, State: c.state(begun.LastSeq, end)}
			in.State.Agent = contract.Agent{SessionID: id, Name: "claude"}
			r := &Reconciler{Temporal: terminatedRun{run: run}, Stream: log, Archive: store, Agents: builtin.Registry()}
			if !in.ArchiveBehind() {
				// The first attempt was killed before it could archive what it has streamed.
				epoch, err := r.takeEpoch(t.Context(), run)
				require.NoError(t, err)
				closing, _, err := r.closing(t.Context(), in)
				require.NoError(t, err)
				_, err = log.Emit(t.Context(), id, stream.Emission{Fence: stream.Fence{Epoch: epoch}, LastSeq: end, Key: "termination-r1", Events: closing})
				require.NoError(t, err)
			}
			require.NoError(t, r.RecordTermination(t.Context(), in))
			require.NoError(t, r.RecordTermination(t.Context(), in), "its result may be lost")

			data, err := store.Session(t.Context(), id)
			require.NoError(t, err)
			rec, err := session.RecordOf(data)
			require.NoError(t, err)
			require.Equal(t, c.used, rec.Usage.InputTokens, "what the running turn has used, once")
			live := reducer.NewBuilder(reducer.State{})
			failed := false
			require.NoError(t, eachAfter(t.Context(), log, id, 0, func(ev event.Event) bool {
				live.Add(ev)
				failed = failed || is[event.QueryFailed](ev)
				return true
			}))
			require.Equal(t, c.failed, failed)
			restored := reducer.NewBuilder(reducer.State{})
			adapter, err := builtin.Registry().Get("claude")
			require.NoError(t, err)
			for ev, err := range store.Events(t.Context(), id, adapter.Parse) {
				require.NoError(t, err)
				restored.Add(ev)
			}
			for side, state := range map[string]reducer.State{"live": live.State(), "restored": restored.State()} {
				var got []string
				for _, b := range state.Blocks[:len(state.Blocks)-1] {
					switch {
					case effects.Unknown(b):
						got = append(got, b.ToolUseID+": unknown")
					case b.Content == nil:
						got = append(got, b.ID+": ")
					default:
						got = append(got, b.ID+": "+*b.Content)
					}
					require.Equal(t, event.SourceServer, b.Source, side)
				}
				require.Equal(t, c.want, got, side)
				require.Equal(t, "terminated", state.Blocks[len(state.Blocks)-1].Subtype, side)
			}
		})
	}
}
