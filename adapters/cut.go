package adapters

import "io"

// Cutter is an adapter whose archived transcripts are not in the order of the conversation: the
// beginning of their lines is not the beginning of the conversation.
type Cutter interface {
	// Cut returns the lines of an exported transcript without what makes the blocks that are
	// not kept, so that the agent and Parse find a conversation that ends there. keep is asked for
	// blocks by their conversation and id.
	Cut(exported Source, keep func(conversation, block string) bool) (io.ReadCloser, error)
}
