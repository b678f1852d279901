package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// SearchAttributes returns those that a namespace must have: a workflow that sets
// an unknown one can't continue.
func SearchAttributes() []temporal.SearchAttributeKey {
	return []temporal.SearchAttributeKey{
		AttrStatus, AttrOutcome, AttrLimit, AttrAgent, AttrProfile, AttrHost, AttrRoot, AttrParent, AttrTenant, AttrTitle, AttrTags,
		AttrTurns, AttrDepth, AttrCostUSD, AttrLastActivity,
	}
}

// AttributeTypeError is a search attribute that the namespace has with another
// type. Only an operator may change it.
type AttributeTypeError struct {
	Name       string
	Have, Want enumspb.IndexedValueType
}

func (e *AttributeTypeError) Error() string {
	return fmt.Sprintf("search attribute %s is of the type %s, want %s", e.Name, e.Have, e.Want)
}

// MissingSearchAttributes returns those of SearchAttributes that the namespace
// does not have, with their types. Error: *AttributeTypeError.
func MissingSearchAttributes(ctx context.Context, c client.Client, namespace string) (map[string]enumspb.IndexedValueType, error) {
	known, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, fmt.Errorf("list search attributes: %w", err)
	}
	missing := map[string]enumspb.IndexedValueType{}
	for _, key := range SearchAttributes() {
		have, is := known.GetCustomAttributes()[key.GetName()]
		switch {
		case !is:
			missing[key.GetName()] = key.GetValueType()
		case have != key.GetValueType():
			return nil, &AttributeTypeError{Name: key.GetName(), Have: have, Want: key.GetValueType()}
		}
	}
	return missing, nil
}

// EnsureSearchAttributes adds the search attributes that the namespace does not have, and
// returns their names when the server uses them. Error: *AttributeTypeError.
func EnsureSearchAttributes(ctx context.Context, c client.Client, namespace string) (made []string, err error) {
	missing, err := MissingSearchAttributes(ctx, c, namespace)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	made = slices.Sorted(maps.Keys(missing))
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: missing,
	})
	if err != nil {
		return nil, fmt.Errorf("add search attributes %v: %w", made, err)
	}
	return made, awaitSearchAttributes(ctx, c, namespace)
}

// awaitSearchAttributes returns when the server uses the added attributes: a session
// started earlier would be refused. The server's list is ahead of what it checks sessions
// by, so a query is tried too.
func awaitSearchAttributes(ctx context.Context, c client.Client, namespace string) error {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		missing, err := MissingSearchAttributes(ctx, c, namespace)
		if err != nil {
			return err
		}
		if len(missing) == 0 {
			_, err := c.WorkflowService().CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{
				Namespace: namespace, Query: AttrAgent.GetName() + " = 'none'",
			})
			var unknown *serviceerror.InvalidArgument
			if !errors.As(err, &unknown) {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("search attributes do not appear: %w", ctx.Err())
		case <-again.C:
		}
	}
}
