package event

// Weight is about how many bytes an event takes in memory: enough to bound a
// queue.
func Weight(e Event) int {
	const fixed = 256
	switch p := e.Payload.(type) {
	case BlockDelta:
		return fixed + len(p.Delta)
	case BlockUpsert:
		return fixed + blockWeight(p.Block)
	case PermissionRequested:
		return fixed + len(p.Input) + len(p.Questions)
	case FileCreated:
		return fixed + textLen(p.Content)
	case FileModified:
		return fixed + textLen(p.Content)
	case Native:
		return fixed + len(p.Raw) + len(p.Line)
	case Unknown:
		return fixed + len(p.Raw)
	}
	return fixed
}

func blockWeight(b Block) int {
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
