package workflows

import (
	"github.com/sojourn-run/sojourn/event"
)

// refusals are the errors that the session says about signals.
func refusals(w *world) []event.Error { return heard[event.Error](w, "s1") }
