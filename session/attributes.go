package session

import "go.temporal.io/sdk/temporal"

// The search attributes of a session's workflow. SQL visibility allows ten
// keywords and three of each other type per namespace.
var (
	AttrStatus = temporal.NewSearchAttributeKeyKeyword("SojournStatus")
	// AttrOutcome is how the last turn ended; not set before a turn has ended.
	AttrOutcome = temporal.NewSearchAttributeKeyKeyword("SojournOutcome")
	// AttrLimit is the limit that keeps queued messages from running, in words; not set otherwise.
	AttrLimit        = temporal.NewSearchAttributeKeyKeyword("SojournLimit")
	AttrAgent        = temporal.NewSearchAttributeKeyKeyword("SojournAgent")
	AttrProfile      = temporal.NewSearchAttributeKeyKeyword("SojournProfile")
	AttrHost         = temporal.NewSearchAttributeKeyKeyword("SojournHost")
	AttrRoot         = temporal.NewSearchAttributeKeyKeyword("SojournRoot")
	AttrParent       = temporal.NewSearchAttributeKeyKeyword("SojournParent")
	AttrTenant       = temporal.NewSearchAttributeKeyKeyword("SojournTenant")
	AttrTitle        = temporal.NewSearchAttributeKeyString("SojournTitle")
	AttrTags         = temporal.NewSearchAttributeKeyKeywordList("SojournTags")
	AttrTurns        = temporal.NewSearchAttributeKeyInt64("SojournTurns")
	AttrDepth        = temporal.NewSearchAttributeKeyInt64("SojournDepth")
	AttrCostUSD      = temporal.NewSearchAttributeKeyFloat64("SojournCostUSD")
	AttrLastActivity = temporal.NewSearchAttributeKeyTime("SojournLastActivity")
)

// ParentNone is the value of AttrParent for an ephemeral session that no other
// session spawned; it is not a valid session id.
const ParentNone = "(none)"
