package runner

import "fmt"

// A runner outlives the worker that started it, and the next worker may be of
// another release: runner and client send each other the version of the
// protocol that they speak, and the oldest one that they understand.
const (
	// Protocol is the version spoken by this package. 1: runners that predate
	// versions. 2: records have checksums, and a runner reports what of its folder is
	// damaged.
	Protocol = 2
	// ProtocolFrom is the oldest version understood.
	ProtocolFrom = 1
)

// CheckProtocol reports whether this package can talk to a runner; if not, the
// error is [ErrVersion].
func CheckProtocol(s Status) error {
	spoken, from := max(s.Protocol, 1), max(s.ProtocolFrom, 1)
	if spoken < ProtocolFrom || from > Protocol {
		return fmt.Errorf("%w: the runner (process %d) understands versions %d to %d of the protocol, this worker %d to %d",
			ErrVersion, s.Supervisor, from, spoken, ProtocolFrom, Protocol)
	}
	return nil
}
