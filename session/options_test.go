package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Values for which Temporal would fail the workflow are refused earlier.
func TestIndexedFieldsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 1500)
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("a tag that is not short at all, number %d", i))
	}
	for field, o := range map[string]Options{
		"title":   {Agent: "claude", Title: long},
		"tags":    {Agent: "claude", Tags: many},
		"tenant":  {Agent: "claude", Tenant: long},
		"profile": {Agent: "claude", Profile: long},
		"agent":   {Agent: long},
	} {
		var invalid *InvalidError
		require.ErrorAs(t, o.Validate(), &invalid, field)
		require.Equal(t, field, invalid.Field)
	}
	require.NoError(t, Options{Agent: "claude", Title: strings.Repeat("x", 1900), Tags: many[:20]}.Validate())

	for field, c := range map[string]Configure{"title": {Title: &long}, "tags": {Tags: many}} {
		var invalid *InvalidError
		require.ErrorAs(t, c.Validate(), &invalid, field)
		require.Equal(t, field, invalid.Field)
	}
}
