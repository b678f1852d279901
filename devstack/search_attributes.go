package main

import (
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	operatorservice "go.temporal.io/api/operatorservice/v1"
)

// searchAttributes returns those of Sojourn's session workflows.
func searchAttributes() map[string]enumspb.IndexedValueType {
	return map[string]enumspb.IndexedValueType{
		"SojournStatus":       enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"SojournOutcome":      enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"SojournLimit":        enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"SojournAgent":        enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"SojournProfile":      enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"SojournHost":         enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"SojournRoot":         enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"SojournParent":       enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"SojournTenant":       enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"SojournTitle":        enumspb.INDEXED_VALUE_TYPE_TEXT,
		"SojournTags":         enumspb.INDEXED_VALUE_TYPE_KEYWORD_LIST,
		"SojournTurns":        enumspb.INDEXED_VALUE_TYPE_INT,
		"SojournDepth":        enumspb.INDEXED_VALUE_TYPE_INT,
		"SojournCostUSD":      enumspb.INDEXED_VALUE_TYPE_DOUBLE,
		"SojournLastActivity": enumspb.INDEXED_VALUE_TYPE_DATETIME,
	}
}

// ensureSearchAttributes adds the missing ones and returns when the server knows
// them. A new namespace is created with all of them, because the server takes two
// seconds to notice added ones.
func ensureSearchAttributes(ctx context.Context, operator operatorservice.OperatorServiceClient) error {
	missing, err := missingSearchAttributes(ctx, operator)
	if err != nil || len(missing) == 0 {
		return err
	}
	_, err = operator.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace:        namespace,
		SearchAttributes: missing,
	})
	if err != nil {
		return fmt.Errorf("add search attributes: %w", err)
	}
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for len(missing) > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("search attributes do not appear: %w", ctx.Err())
		case <-retry.C:
		}
		if missing, err = missingSearchAttributes(ctx, operator); err != nil {
			return err
		}
	}
	return nil
}

func missingSearchAttributes(
	ctx context.Context, operator operatorservice.OperatorServiceClient,
) (map[string]enumspb.IndexedValueType, error) {
	known, err := operator.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, fmt.Errorf("list search attributes: %w", err)
	}
	missing := searchAttributes()
	for name := range known.GetCustomAttributes() {
		delete(missing, name)
	}
	return missing, nil
}
