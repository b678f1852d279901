// Package fork copies the archive of a session, up to a block of its conversation, into that of a
// new session.
//
//	last, err := fork.Copy(ctx, a, agent, fork.From{ID: id, At: block}, fork.To{ID: newID, Epoch: epoch})
//
// The copy is what the agent would find after it was killed behind that block: whole lines of its
// transcripts. So the agent continues from them as it does after a loss. Nothing of the original
// is changed, and it may be running: what is archived at the moment is copied.
//
//	point.go    which blocks the copy has
//	cut.go      which part of the transcripts makes them
//	copy.go     transcripts, server entries and files, into the new session
package fork
