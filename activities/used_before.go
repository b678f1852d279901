package activities

import (
	"fmt"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/limits"
)

// usedBefore is what the stream has of what an execution used before its runner or host was
// lost. What it had used when it was parked is counted already.
type usedBefore struct {
	limits.Execution
	executionID string
	// parks counts the parkings that the workflow knows.
	parks int
	begun bool
}

// parkedID returns the id of the notice about an execution's n-th parking.
func parkedID(executionID string, n int) string {
	return fmt.Sprintf("sojourn-%s-parked-%d", executionID, n)
}

func (u *usedBefore) Add(ev event.Event) {
	switch p := ev.Payload.(type) {
	case event.QueryStarted:
		u.begun = u.begun || u.parks == 0 && p.ExecutionID == u.executionID
	case event.BlockUpsert:
		u.begun = u.begun || u.parks > 0 && p.Block.ID == parkedID(u.executionID, u.parks)
	case event.MetadataUpdate:
		if u.begun {
			u.Execution.Add(ev)
		}
	}
}

// parksOf returns how often the execution of an attempt was parked.
func parksOf(in contract.RunTurnInput) int {
	if in.Resumes == nil {
		return 0
	}
	return in.Resumes.Parks
}
