package supervisor

import (
	"cmp"
	"fmt"
	"syscall"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

// noteExit records how the agent ended, in the spool and in the status.
func (s *Supervisor) noteExit(ws syscall.WaitStatus) {
	line, code, signal := describe(ws)
	if why := s.reason(); why != "" {
		line += " (" + why + ")"
	}
	if _, err := s.record(event.DirSig, line); err != nil {
		s.fault(err)
	}
	if !s.lease.deadline().IsZero() {
		// The lease has nothing to end any more.
		_ = s.lease.arm(wire.Lease{})
	}
	s.mu.Lock()
	s.saved.State = runner.AgentExited
	s.saved.ExitCode = &code
	s.saved.Signal = signal
	s.saved.Exited = time.Now().UTC()
	s.saved.Epoch = s.epoch.seen()
	s.saved.SpoolFirst, s.saved.SpoolEnd = s.spool.Bounds()
	s.save()
	s.mu.Unlock()
	s.spool.Seal()
	s.log.Info("agent ended", "how", line)
}

// reason returns why the runner itself ended the agent; empty if it did not.
func (s *Supervisor) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.saved.Fault, s.endedBecause)
}

func describe(ws syscall.WaitStatus) (line string, code int, signal string) {
	if ws.Signaled() {
		signal = ws.Signal().String()
		return "signal " + signal, 128 + int(ws.Signal()), signal
	}
	return fmt.Sprintf("exit %d", ws.ExitStatus()), ws.ExitStatus(), ""
}

// fault ends an agent whose traffic can no longer be recorded.
func (s *Supervisor) fault(err error) {
	s.mu.Lock()
	first := s.saved.Fault == ""
	if first {
		s.saved.Fault = err.Error()
	}
	s.mu.Unlock()
	if first {
		if err := s.control.spend(); err != nil {
			s.log.Error("the reserve stays", "error", err)
		}
		s.log.Error("agent is ended", "error", err)
		_ = s.processTree.kill()
	}
}
