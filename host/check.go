package host

// BeginCheck keeps a sandbox from being evicted or ended as idle, for a command that runs in it
// beside its agent, until done is called.
func (h *Host) BeginCheck(sandboxID string) (done func()) {
	h.mu.Lock()
	h.checks[sandboxID]++
	h.mu.Unlock()
	h.Slots.Busy(sandboxID)
	return func() {
		h.mu.Lock()
		h.checks[sandboxID]--
		last := h.checks[sandboxID] == 0
		if last {
			delete(h.checks, sandboxID)
		}
		h.mu.Unlock()
		if last {
			h.Slots.Idle(sandboxID)
		}
	}
}

// isChecked reports whether a check runs in a sandbox.
func (h *Host) isChecked(sandboxID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.checks[sandboxID] > 0
}
