package event

// Dir is the direction of a native record.
type Dir string

// The directions of a record.
const (
	// DirIn is what was written to the agent.
	DirIn Dir = "in"
	// DirOut is a line of the agent's output, or an SSE event's data.
	DirOut Dir = "out"
	// DirErr is a line of the agent's standard error.
	DirErr Dir = "err"
	// DirSig is something that happened to the process: "start", "exit 0",
	// "signal killed".
	DirSig Dir = "sig"
)

// Valid reports whether it is one of these.
func (d Dir) Valid() bool {
	return d == DirIn || d == DirOut || d == DirErr || d == DirSig
}
