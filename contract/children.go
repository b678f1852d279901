package contract

// AwaitChildInput names a child session whose end is awaited.
type AwaitChildInput struct {
	SessionID string `json:"sessionId"`
	// RunID is the first run of the child's workflow: a later session with the same id is
	// another one.
	RunID string `json:"runId"`
}

// CancelChildrenInput asks to close the children of a session whose workflow was ended from
// outside.
type CancelChildrenInput struct {
	Parent   string   `json:"parent"`
	Children []string `json:"children"`
}
