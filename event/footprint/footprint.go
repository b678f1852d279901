// Package footprint estimates how much memory events take.
package footprint

import "github.com/sojourn-run/sojourn/event"

// Of returns about how many bytes an event takes in memory, to bound a queue.
func Of(e event.Event) int {
	const fixed = 256
	switch p := e.Payload.(type) {
	case event.BlockDelta:
		return fixed + len(p.Delta)
	case event.BlockUpsert:
		return fixed + ofBlock(p.Block)
	case event.PermissionRequested:
		return fixed + len(p.Input) + len(p.Questions)
	case event.FileCreated:
		return fixed + textLen(p.Content)
	case event.FileModified:
		return fixed + textLen(p.Content)
	case event.Native:
		return fixed + len(p.Raw) + len(p.Line)
	case event.Unknown:
		return fixed + len(p.Raw)
	}
	return fixed
}

func ofBlock(b event.Block) int {
	n := len(b.Input) + len(b.Output) + textLen(b.Content) + textLen(b.Message)
	for _, p := range b.Parts {
		n += len(p.Text) + len(p.Data)
	}
	for _, v := range b.Metadata {
		n += len(v)
	}
	return n
}

func textLen(s *string) int {
	if s == nil {
		return 0
	}
	return len(*s)
}
