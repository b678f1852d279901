package contract

// AwaitChildInput names a child session whose end is awaited.
type AwaitChildInput struct {
	SessionID string `json:"sessionId"`
	// RunID is the first run of the child's workflow: a later session with the same id is
	// another one.
	RunID string `json:"runId"`
}

// ParentSandboxInput names the session whose sandbox a child works in. The output is that
// sandbox.
type ParentSandboxInput struct {
	Parent string `json:"parent"`
}

// CancelChildrenInput asks to close the children of a session whose workflow was ended from
// outside.
type CancelChildrenInput struct {
	Parent   string   `json:"parent"`
	Children []string `json:"children"`
}
