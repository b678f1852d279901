// Package serving answers the tool calls of agents. Those of a program's tools are passed to it. By
// the others an agent uses child sessions. A child is
// what any program has by [session.Handle.Spawn]: a session of its own, which outlives the
// agent, the worker and the call. So a call keeps nothing: an agent that missed an answer
// asks for it again by the child's id.
package serving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/agenttools"
	"github.com/sojourn-run/sojourn/limits"
	"github.com/sojourn-run/sojourn/permission"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/session"
)

// Server answers tool calls. Safe for concurrent use.
type Server struct {
	Sessions *session.Client
	// Profile loads an agent profile; nil if there are none.
	Profile func(ctx context.Context, id string) (adapters.Profile, error)
	// Programs calls the tools of programs.
	Programs Programs
}

// Programs calls tools of programs.
type Programs interface {
	// Call makes a call once, however often it is asked with the same id, and waits for its result
	// until ctx ends; done reports whether it has ended by then. An error is the call's.
	Call(ctx context.Context, id, sessionID string, t session.Tool, arguments json.RawMessage) (result json.RawMessage, done bool, err error)
	// Result waits for the result of a call that was made before, as Call does.
	Result(ctx context.Context, id string) (result json.RawMessage, done bool, err error)
}

// Call answers a call by the agent of a session. A repeated call has the effect of one.
func (s *Server) Call(ctx context.Context, sessionID string, call runner.ToolCall) runner.ToolResult {
	result, err := s.call(ctx, sessionID, call)
	if err == nil {
		var text string
		if text, err = lines(result); err == nil {
			return runner.ToolResult{Text: text}
		}
	}
	return runner.ToolResult{Failed: true, Text: fmt.Sprintf("%s: %v", call.Name, err)}
}

// lines encodes a result as JSON with a line for each agent: people read it too, often its
// first lines only. It is an object in any case: Gemini CLI takes a text that is JSON for
// structured content, and refuses a list there.
func lines(result any) (string, error) {
	if text, whole := result.(rawText); whole {
		return cutAnswer(string(text), "result"), nil
	}
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	all, several := result.([]agenttools.Agent)
	if !several {
		err := encoder.Encode(result)
		return strings.TrimSuffix(out.String(), "\n"), err
	}
	for i, a := range all {
		if i > 0 {
			out.WriteString(",")
		}
		if err := encoder.Encode(a); err != nil {
			return "", err
		}
	}
	return `{"agents":[` + strings.TrimSuffix(out.String(), "\n") + "]}", nil
}

func (s *Server) call(ctx context.Context, sessionID string, call runner.ToolCall) (any, error) {
	parent, err := s.Sessions.Get(ctx, sessionID)
	if err != nil {
		return nil, err
	}
	c := caller{s, parent, call}
	if !agenttools.Own(call.Name) {
		return c.program(ctx)
	}
	if call.Name == agenttools.WaitTool {
		return with(ctx, call, c.waitProgram)
	}
	if err := c.maySpawn(ctx); err != nil {
		return nil, err
	}
	switch call.Name {
	case agenttools.SpawnAgent:
		return with(ctx, call, c.spawn)
	case agenttools.ListAgents:
		return with(ctx, call, c.list)
	case agenttools.WaitAgent:
		return with(ctx, call, c.wait)
	case agenttools.MessageAgent:
		return with(ctx, call, c.message)
	}
	return with(ctx, call, c.stop)
}

// errNoTool is told also of tools that are Sojourn's own, which any process in a sandbox can name.
var errNoTool = errors.New("there is no such tool")

func (c caller) maySpawn(ctx context.Context) error {
	state, err := c.parent.Inspect(ctx)
	if err == nil && !state.Options.Spawn {
		err = errNoTool
	}
	return err
}

// program calls a tool of a program. A session that can't be asked for its tools yet is asked
// again: a call that failed would be made anew by the agent, and may run already.
func (c caller) program(ctx context.Context) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, agenttools.MaxWaitSeconds*time.Second)
	defer cancel()
	for {
		state, err := c.parent.Inspect(ctx)
		switch {
		case err == nil:
			return c.programOf(ctx, state.Options.Tools)
		case errors.Is(err, session.ErrNotFound):
			return nil, err
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return agenttools.StillRunning(c.call.ID), nil
		}
	}
}

func (c caller) programOf(ctx context.Context, tools []session.Tool) (any, error) {
	i := slices.IndexFunc(tools, func(t session.Tool) bool { return t.Name == c.call.Name })
	if i < 0 {
		return nil, errNoTool
	}
	result, done, err := c.Programs.Call(ctx, c.programCall(c.call.ID), c.parent.ID(), tools[i], c.call.Arguments)
	return c.programResult(c.call.ID, result, done, err)
}

func (c caller) waitProgram(ctx context.Context, args agenttools.WaitProgram) (any, error) {
	patience, err := patienceOf(args.WaitSeconds)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	result, done, err := c.Programs.Result(ctx, c.programCall(args.CallID))
	return c.programResult(args.CallID, result, done, err)
}

// programCall returns the id of a call among those of all sessions.
func (c caller) programCall(call string) string { return c.parent.ID() + "/" + call }

func (c caller) programResult(call string, result json.RawMessage, done bool, err error) (any, error) {
	switch {
	case err != nil:
		return nil, err
	case !done:
		return agenttools.StillRunning(call), nil
	}
	return programText(result), nil
}

// programText is a result that is returned as it is: a text, or a JSON object. Gemini CLI takes a
// text that is JSON for structured content, and refuses everything but an object there.
func programText(result json.RawMessage) rawText {
	var text string
	if json.Unmarshal(result, &text) == nil && !json.Valid([]byte(text)) {
		return rawText(text)
	}
	if trimmed := bytes.TrimSpace(result); len(trimmed) > 0 && trimmed[0] == '{' {
		return rawText(trimmed)
	}
	if len(result) == 0 {
		result = json.RawMessage("null")
	}
	return rawText(`{"result":` + string(result) + "}")
}

type rawText string

// with decodes a call's arguments and calls do.
func with[A, R any](ctx context.Context, call runner.ToolCall, do func(context.Context, A) (R, error)) (any, error) {
	var args A
	if err := json.Unmarshal(call.Arguments, &args); err != nil {
		return nil, fmt.Errorf("malformed arguments: %w", err)
	}
	return do(ctx, args)
}

// caller is the session whose agent calls.
type caller struct {
	*Server
	parent *session.Handle
	call   runner.ToolCall
}

// id returns an id that is the same each time the call is passed on.
func (c caller) id(of string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(c.parent.ID()+" "+c.call.ID+" "+of)).String()
}

func (c caller) spawn(ctx context.Context, args agenttools.Spawn) (agenttools.Agent, error) {
	patience, err := patienceOf(args.WaitSeconds)
	if err != nil {
		return agenttools.Agent{}, err
	}
	req := session.SpawnRequest{
		ID: c.id("child"), Message: session.Message{ID: c.id("message"), Text: args.Prompt}, Description: args.Description,
		Options: session.Options{
			Agent: args.Agent, Model: args.Model, Profile: args.Profile, Sandbox: args.Sandbox, Title: args.Description,
			Limits: limits.Limits{CostUSD: args.MaxCostUSD, Tokens: args.MaxTokens},
		},
	}
	if req.Options, err = c.within(ctx, req.Options); err != nil {
		return agenttools.Agent{}, err
	}
	if _, err := c.parent.Spawn(ctx, req); err != nil && !c.spawnedBefore(ctx, req.ID) {
		return agenttools.Agent{}, err
	}
	return c.answer(ctx, req.ID, patience)
}

// spawnedBefore reports whether an earlier delivery of the call has spawned a child, which
// may have ended since.
func (c caller) spawnedBefore(ctx context.Context, id string) bool {
	_, _, err := c.child(ctx, id)
	return err == nil
}

// within returns a child's options with the rules that bind its parent, its profile's
// included: no child of an agent's own may do more than the agent.
func (c caller) within(ctx context.Context, o session.Options) (session.Options, error) {
	parent, err := c.parent.Inspect(ctx)
	if err != nil {
		return o, err
	}
	binding := parent.Options
	policy := permission.Policy{
		Standing: binding.Permission, Rules: binding.Permissions, Deadline: binding.PermissionDeadline, Park: binding.Park, Effects: binding.UnknownEffects,
	}
	if binding.Profile != "" && c.Profile != nil {
		p, err := c.Profile(ctx, binding.Profile)
		if err != nil {
			return o, fmt.Errorf("profile %q of this session: %w", binding.Profile, err)
		}
		policy = policy.Over(p.Policy())
	}
	if err := c.mayUse(ctx, o.Profile, binding); err != nil {
		return o, err
	}
	o.Permission, o.Permissions, o.PermissionDeadline = policy.Standing, policy.Rules, policy.Deadline
	o.Park, o.UnknownEffects = policy.Park, policy.Effects
	o.Spawn, o.SpawnProfiles = true, binding.SpawnProfiles
	if o.Permission == "" {
		o.Permission = adapters.PermissionAllow
	}
	return o, nil
}

// mayUse refuses a profile that the session may not spawn with, and one that is unknown.
func (c caller) mayUse(ctx context.Context, id string, binding session.Options) error {
	allowed := slices.DeleteFunc(append([]string{binding.Profile}, binding.SpawnProfiles...), func(p string) bool { return p == "" })
	switch {
	case id == "":
		return nil
	case len(allowed) == 0:
		return session.Invalid("profile", fmt.Sprintf("%q is not allowed", id), "none")
	case !slices.Contains(allowed, id):
		return session.Invalid("profile", fmt.Sprintf("%q is not allowed", id), "one of "+strings.Join(allowed, ", "))
	case c.Profile == nil:
		return session.Invalid("profile", "the worker has no profiles", "none")
	}
	_, err := c.Profile(ctx, id)
	if err != nil {
		return session.Invalid("profile", err.Error(), "a profile that the worker has")
	}
	return nil
}

func (c caller) list(ctx context.Context, _ agenttools.List) ([]agenttools.Agent, error) {
	state, err := c.parent.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	all := []agenttools.Agent{}
	for _, listed := range state.Children {
		a, err := c.answer(ctx, listed.SessionID, 0)
		if err != nil {
			return nil, err
		}
		a.Answer = "" // wait_agent has it
		all = append(all, a)
	}
	return all, nil
}

func (c caller) wait(ctx context.Context, args agenttools.Wait) ([]agenttools.Agent, error) {
	patience, err := patienceOf(args.WaitSeconds)
	if err != nil {
		return nil, err
	}
	if len(args.AgentIDs) == 0 {
		return nil, session.Invalid("agent_ids", "is empty", "at least one id, as spawn_agent returns it")
	}
	until := time.Now().Add(patience)
	var all []agenttools.Agent
	for _, id := range args.AgentIDs {
		a, err := c.answer(ctx, id, time.Until(until))
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

func (c caller) message(ctx context.Context, args agenttools.Message) (agenttools.Agent, error) {
	patience, err := patienceOf(args.WaitSeconds)
	if err != nil {
		return agenttools.Agent{}, err
	}
	h, _, err := c.child(ctx, args.AgentID)
	if err != nil {
		return agenttools.Agent{}, err
	}
	_, err = h.Send(ctx, session.Message{ID: c.id("message"), Text: args.Message, WhenBusy: session.BusySteer})
	if errors.Is(err, session.ErrClosed) {
		return agenttools.Agent{}, fmt.Errorf("%s has answered and ended: spawn another agent", args.AgentID)
	}
	if err != nil {
		return agenttools.Agent{}, err
	}
	return c.answer(ctx, args.AgentID, patience)
}

func (c caller) stop(ctx context.Context, args agenttools.Stop) (agenttools.Agent, error) {
	h, state, err := c.child(ctx, args.AgentID)
	if err != nil {
		return agenttools.Agent{}, err
	}
	if err := h.Close(ctx); err != nil {
		return agenttools.Agent{}, err
	}
	return agenttools.Agent{AgentID: args.AgentID, Agent: state.Agent, Description: state.Title, Status: agenttools.Stopped}, nil
}

// child returns a child of the caller's session. An agent reaches no other session.
func (c caller) child(ctx context.Context, id string) (*session.Handle, session.Inspection, error) {
	unknown := session.Invalid("agent_id", fmt.Sprintf("%q is none of your agents", id), "an id that spawn_agent returned")
	if session.ValidateID("agent_id", id) != nil {
		return nil, session.Inspection{}, unknown
	}
	h, err := c.Sessions.Get(ctx, id)
	if errors.Is(err, session.ErrNotFound) {
		return nil, session.Inspection{}, unknown
	}
	if err != nil {
		return nil, session.Inspection{}, err
	}
	state, err := h.Inspect(ctx)
	if err != nil {
		return nil, state, err
	}
	if state.Parent == nil || state.Parent.SessionID != c.parent.ID() {
		return nil, state, unknown
	}
	return h, state, nil
}

// answer waits until a child has done what it was asked, or the time is over, and returns
// how it is.
func (c caller) answer(ctx context.Context, id string, patience time.Duration) (agenttools.Agent, error) {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		h, state, err := c.child(ctx, id)
		if err != nil {
			return agenttools.Agent{}, err
		}
		a := agenttools.Agent{AgentID: id, Agent: state.Agent, Description: state.Title}
		busy := state.Status != session.StatusClosed && (state.CurrentExecution != "" || len(state.Queued) > 0)
		switch {
		case state.Status == session.StatusWaiting:
			a.Status, a.Next = agenttools.Waiting, "A person must decide something first. Go on with other work, then call wait_agent."
			return a, nil
		case state.Status == session.StatusPaused:
			a.Status, a.Next = agenttools.Waiting, "It has used what its limits allow; a person can raise them."
			return a, nil
		case !busy:
			return settled(ctx, a, h)
		case waiting.Err() != nil:
			a.Status, a.Next = agenttools.Running, "It is still at work. Go on with other work, or call wait_agent with this agent_id."
			return a, nil
		}
		if err := c.untilChanged(waiting, h, state); err != nil && ctx.Err() != nil {
			return a, err
		}
	}
}

// lookAgain bounds the wait for an execution's end: a child may begin to wait for a person
// before that.
const lookAgain = 2 * time.Second

// untilChanged waits for the end of the child's execution.
func (c caller) untilChanged(ctx context.Context, h *session.Handle, state session.Inspection) error {
	ctx, cancel := context.WithTimeout(ctx, lookAgain)
	defer cancel()
	id := state.CurrentExecution
	if id == "" {
		id = state.Queued[0].ID
	}
	x, err := h.FindExecution(ctx, id)
	if err == nil {
		_, err = x.Wait(ctx)
	}
	if err != nil && ctx.Err() == nil {
		<-ctx.Done() // it could not be waited for: look again later
	}
	return err
}

// settled adds the last answer of a child that has ended, or is about to.
func settled(ctx context.Context, a agenttools.Agent, h *session.Handle) (agenttools.Agent, error) {
	last, err := h.Result(ctx, "")
	if errors.Is(err, session.ErrNotFound) {
		a.Status, a.Answer = agenttools.Stopped, "It was ended before it could answer."
		return a, nil
	}
	if err != nil {
		return a, err
	}
	switch last.Outcome {
	case session.Completed:
		a.Status = agenttools.Answered
		a.Answer, err = whole(ctx, h, last)
	case session.Interrupted:
		a.Status, a.Answer = agenttools.Interrupted, last.Err().Error()
	default:
		a.Status, a.Answer = agenttools.Failed, last.Err().Error()
	}
	return a, err
}

// maxAnswer is how many bytes of an answer are returned.
const maxAnswer = 64 << 10

// whole returns an execution's whole answer: the workflow has only its beginning.
func whole(ctx context.Context, h *session.Handle, last session.Result) (string, error) {
	if last.Result == nil {
		return "", nil
	}
	text := last.Result.Response
	if last.Result.Truncated {
		x, err := h.FindExecution(ctx, last.ExecutionID)
		if err != nil {
			return "", err
		}
		res, err := x.Wait(ctx)
		if err != nil {
			return "", err
		}
		text = res.Response
	}
	return cutAnswer(text, "answer"), nil
}

// cutAnswer returns a text of at most maxAnswer bytes.
func cutAnswer(text, what string) string {
	if len(text) <= maxAnswer {
		return text
	}
	return strings.ToValidUTF8(text[:maxAnswer], "") + fmt.Sprintf("\n[truncated: the %s has %d bytes]", what, len(text))
}

// patienceOf returns how long a call waits.
func patienceOf(seconds *int) (time.Duration, error) {
	if seconds == nil {
		return agenttools.MaxWaitSeconds * time.Second, nil
	}
	if *seconds < 0 || *seconds > agenttools.MaxWaitSeconds {
		return 0, session.Invalid("wait_seconds", fmt.Sprintf("is %d", *seconds), fmt.Sprintf("0 to %d", agenttools.MaxWaitSeconds))
	}
	return time.Duration(*seconds) * time.Second, nil
}
