package session

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
)

// Summary is one session in a list.
type Summary struct {
	SessionID string `json:"sessionId"`
	Title     string `json:"title"`
	Agent     string `json:"agent"`
	Profile   string `json:"profile,omitempty"`
	Status    Status `json:"status"`
	// Outcome is how the last turn ended; "" before a turn has ended, and for an
	// archived session.
	Outcome Outcome  `json:"outcome,omitempty"`
	Host    string   `json:"host,omitempty"`
	Parent  string   `json:"parent,omitempty"`
	Tags    []string `json:"tags,omitempty"`
	Turns   int64    `json:"turns"`
	// CostUSD as in State.
	CostUSD      *float64  `json:"costUSD,omitempty"`
	CreatedAt    time.Time `json:"createdAt"`
	LastActivity time.Time `json:"lastActivity,omitzero"`
	ClosedAt     time.Time `json:"closedAt,omitzero"`
	// Parked reports whether it waits for a person without an agent and a sandbox.
	Parked bool `json:"parked,omitempty"`
	// WaitsFor is what keeps its turn from running now, other than a person's answer: the limit
	// that was reached, that no host has a free slot, or what has failed and is to be tried
	// again; "" for nothing.
	WaitsFor string `json:"waitsFor,omitempty"`
	// Archived marks a session that Temporal no longer retains.
	Archived bool `json:"archived,omitempty"`
	// Runtime is what runs for the session: its sandbox is null if it has none.
	Runtime event.Runtime `json:"runtime"`
	// Damage describes what of the archived session can't be read, "" for none; the
	// fields that depend on it are zero, and title and tags of one that Temporal retains
	// are those of its close.
	Damage string `json:"damage,omitempty"`
}

// ListOptions choose sessions.
type ListOptions struct {
	// Query is a Temporal visibility query over the Sojourn… search attributes, joined to
	// the client's own with AND. With a query only what Temporal retains is searched.
	// Default: none.
	Query string
	// Children includes spawned sessions. Default: they are left out.
	Children bool
	// Retained leaves out the sessions that Temporal no longer retains, which only the archive
	// has. Default: they come last.
	Retained bool
	// PageSize. Default: 50, at most 1000.
	PageSize int
	// PageToken is the last page's Next. Default: the first page.
	PageToken string
}

// Page is one page of a list, newest first.
type Page struct {
	Sessions []Summary `json:"sessions"`
	// Next is the token of the next page; "" when this is the last.
	Next string `json:"next,omitempty"`
	// Faults describe what could not be read. Titles and tags of closed sessions, which can
	// be changed, are in the archive; without it they may be as they were at the close.
	Faults []string `json:"faults,omitempty"`
}

// pageToken is the position at which a list continues: in Temporal's visibility,
// or among the archive's markers of older closed sessions.
type pageToken struct {
	Temporal []byte `json:"t,omitempty"`
	Archive  string `json:"a,omitempty"`
	InS3     bool   `json:"s,omitempty"`
}

// List returns a page of sessions: first those that Temporal retains, then the
// older closed ones that only the archive has.
func (c *Client) List(ctx context.Context, o ListOptions) (Page, error) {
	if o.PageSize == 0 {
		o.PageSize = 50
	}
	if o.PageSize < 0 || o.PageSize > 1000 {
		return Page{}, Invalid("pageSize", fmt.Sprintf("is %d", o.PageSize), "1 to 1000")
	}
	token, err := decodeToken(o.PageToken)
	if err != nil {
		return Page{}, err
	}
	if token.InS3 {
		return c.listArchive(ctx, o, token)
	}
	return c.listTemporal(ctx, o, token)
}

func decodeToken(s string) (pageToken, error) {
	var t pageToken
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil && len(data) > 0 {
		err = json.Unmarshal(data, &t)
	}
	if err != nil {
		return t, Invalid("pageToken", "is not one of ours", "the next of a page before")
	}
	return t, nil
}

func (t pageToken) encode() (string, error) {
	data, err := json.Marshal(t)
	return base64.RawURLEncoding.EncodeToString(data), err
}

func listQuery(o ListOptions) string {
	terms := []string{"WorkflowType = '" + WorkflowType + "'", "ExecutionStatus != 'ContinuedAsNew'"}
	if !o.Children {
		terms = append(terms, AttrParent.GetName()+" IS NULL")
	}
	if o.Query != "" {
		terms = append(terms, "("+o.Query+")")
	}
	return strings.Join(terms, " AND ")
}

func (c *Client) listTemporal(ctx context.Context, o ListOptions, token pageToken) (Page, error) {
	reply, err := c.o.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: int32(o.PageSize), NextPageToken: token.Temporal, Query: listQuery(o),
	})
	if err != nil {
		return Page{}, c.unavailable(ctx, "list sessions", err)
	}
	page := Page{Sessions: []Summary{}}
	listed, err := c.newestRuns(ctx, reply.GetExecutions())
	if err != nil {
		return Page{}, err
	}
	for _, d := range listed {
		s, err := summary(d)
		if err != nil {
			return Page{}, err
		}
		page.Sessions = append(page.Sessions, s)
	}
	if fault := c.amendedSince(ctx, listed, page.Sessions); fault != "" {
		page.Faults = append(page.Faults, fault)
	}
	next := pageToken{Temporal: reply.GetNextPageToken()}
	if len(next.Temporal) == 0 {
		if o.Query != "" || o.Retained || c.o.Archive == nil {
			return page, nil
		}
		next.InS3 = true
	}
	page.Next, err = next.encode()
	return page, err
}

// listArchive returns a page of the archive's markers, without what Temporal
// still lists.
func (c *Client) listArchive(ctx context.Context, o ListOptions, token pageToken) (Page, error) {
	closed, next, err := c.o.Archive.ListClosed(ctx, o.PageSize, token.Archive)
	if err != nil {
		return Page{}, fmt.Errorf("list closed sessions: %w", err)
	}
	var ids []string
	for _, d := range closed {
		ids = append(ids, d.ID)
	}
	retained, err := c.retained(ctx, ids)
	if err != nil {
		return Page{}, err
	}
	page := Page{Sessions: []Summary{}}
	for _, d := range closed {
		if _, listed := retained[d.ID]; listed {
			continue
		}
		page.Sessions = append(page.Sessions, archivedSummary(d))
	}
	if next != "" {
		page.Next, err = pageToken{Archive: next, InS3: true}.encode()
	}
	return page, err
}

// archivedSummary returns the summary of a session that only the archive has.
// Damage of one entry must not hide the others.
func archivedSummary(d archive.ClosedSession) Summary {
	s := Summary{
		SessionID: d.ID, Title: d.Title, Agent: d.Agent, Profile: d.Profile, Status: StatusClosed, Tags: d.Tags,
		CreatedAt: d.CreatedAt, LastActivity: d.UpdatedAt, ClosedAt: d.ClosedAt, Archived: true, Damage: d.Damage,
	}
	if s.LastActivity.After(s.ClosedAt) || s.Damage != "" { // what is changed of a closed session is no activity
		s.LastActivity = d.ClosedAt
	}
	if s.Damage != "" {
		return s
	}
	rec, err := RecordOf(d.ListData)
	if err != nil {
		s.Damage = err.Error()
	}
	s.Turns, s.CostUSD = int64(rec.Turns), rec.CostUSD
	return s
}

// described is a session's run with what it waits for, which the index does not have.
type described = workflowservice.DescribeWorkflowExecutionResponse

// newestRuns returns the newest run of each session of a page, as Temporal has it now.
func (c *Client) newestRuns(ctx context.Context, page []*workflowpb.WorkflowExecutionInfo) ([]*described, error) {
	latest, err := c.latestRuns(ctx, page)
	if err != nil {
		return nil, err
	}
	// The index may still have a run as running that has continued as new.
	page = slices.DeleteFunc(page, func(info *workflowpb.WorkflowExecutionInfo) bool {
		run, known := latest[info.GetExecution().GetWorkflowId()]
		return !known || run != info.GetExecution().GetRunId() && info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	})
	now, err := c.refresh(ctx, page, latest)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(now, func(d *described) bool {
		id := d.GetWorkflowExecutionInfo().GetExecution().GetWorkflowId()
		again := seen[id]
		seen[id] = true
		return again
	}), nil
}

// latestRuns returns the newest run of each workflow on a page: a session that
// was reopened has several runs, and is one entry.
func (c *Client) latestRuns(ctx context.Context, page []*workflowpb.WorkflowExecutionInfo) (map[string]string, error) {
	var ids []string
	for _, info := range page {
		// A workflow of this type may be started under any id. One with an id that is
		// not a session's never ran, and must not break the query below.
		if id := info.GetExecution().GetWorkflowId(); ValidateID("id", id) == nil {
			ids = append(ids, id)
		}
	}
	return c.retained(ctx, ids)
}

// retained returns the newest run of each of the ids that Temporal still lists.
func (c *Client) retained(ctx context.Context, ids []string) (map[string]string, error) {
	newest := map[string]*workflowpb.WorkflowExecutionInfo{}
	var token []byte
	for more := len(ids) > 0; more; more = len(token) > 0 {
		reply, err := c.o.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			PageSize: 1000, NextPageToken: token, Query: "WorkflowId IN ('" + strings.Join(ids, "','") + "')",
		})
		if err != nil {
			return nil, c.unavailable(ctx, "list sessions", err)
		}
		for _, info := range reply.GetExecutions() {
			id := info.GetExecution().GetWorkflowId()
			if had := newest[id]; had == nil || info.GetStartTime().AsTime().After(had.GetStartTime().AsTime()) {
				newest[id] = info
			}
		}
		token = reply.GetNextPageToken()
	}
	runs := map[string]string{}
	for id, info := range newest {
		runs[id] = info.GetExecution().GetRunId()
	}
	return runs, nil
}

func summary(d *described) (Summary, error) {
	info := d.GetWorkflowExecutionInfo()
	s := Summary{
		SessionID: info.GetExecution().GetWorkflowId(),
		CreatedAt: createdAt(info),
	}
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		s.ClosedAt = info.GetCloseTime().AsTime()
	}
	for name, into := range map[string]any{
		AttrTitle.GetName(): &s.Title, AttrAgent.GetName(): &s.Agent, AttrProfile.GetName(): &s.Profile,
		AttrStatus.GetName(): &s.Status, AttrOutcome.GetName(): &s.Outcome, AttrHost.GetName(): &s.Host, AttrParent.GetName(): &s.Parent,
		AttrTags.GetName(): &s.Tags, AttrTurns.GetName(): &s.Turns, AttrCostUSD.GetName(): &s.CostUSD,
		AttrLastActivity.GetName(): &s.LastActivity, AttrLimit.GetName(): &s.WaitsFor,
	} {
		if err := attribute(info.GetSearchAttributes(), name, into); err != nil {
			return s, fmt.Errorf("session %s: search attribute %s: %w", s.SessionID, name, err)
		}
	}
	if !s.ClosedAt.IsZero() {
		// A terminated workflow could not update its status.
		s.Status, s.WaitsFor = StatusClosed, ""
		return s, nil
	}
	s.Runtime.IsLoaded, s.Parked = true, s.Status == StatusWaiting && s.Host == ""
	if s.Status != StatusPaused { // the limit is what it waits for
		s.WaitsFor = heldUp(d.GetPendingActivities())
	}
	if s.Host != "" {
		s.Runtime.Sandbox = &event.Environment{Host: s.Host}
	}
	return s, nil
}

// createdAt returns when a session was created: the start of its newest run if another program
// started it, or a codec hides the memo from this client.
func createdAt(info *workflowpb.WorkflowExecutionInfo) time.Time {
	var at time.Time
	if err := converter.GetDefaultDataConverter().FromPayload(info.GetMemo().GetFields()[memoCreatedAt], &at); err != nil || at.IsZero() {
		return info.GetStartTime().AsTime()
	}
	return at
}

func attribute(set *commonpb.SearchAttributes, name string, into any) error {
	p := set.GetIndexedFields()[name]
	if len(p.GetData()) == 0 {
		return nil
	}
	return converter.GetDefaultDataConverter().FromPayload(p, into)
}
