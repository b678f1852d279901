package workflows

import (
	"github.com/sojourn-run/sojourn/session"
)

func spawnOf(id, text string) session.SpawnRequest {
	return session.SpawnRequest{ID: id, Message: session.Message{ID: "to-" + id, Text: text}, Description: "a test"}
}
