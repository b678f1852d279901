package session

import (
	"bytes"
	"crypto/sha256"
	"slices"
)

// SpentIDs are message ids that may not be used again, oldest first, as the first
// bytes of their SHA-256. The zero value is empty.
type SpentIDs []byte

// spentBytes is the size of one id. The chance that any two of 100 000 ids collide is one
// in four thousand million.
const spentBytes = 8

// Add appends ids, and keeps the newest [KeptIDs] at most.
func (s *SpentIDs) Add(ids ...string) {
	kept := *s
	for _, id := range ids {
		sum := sha256.Sum256([]byte(id))
		kept = append(kept, sum[:spentBytes]...)
	}
	*s = kept.newest(KeptIDs)
}

// merge appends the ids of another session, and keeps the newest [KeptIDs] at most.
func (s *SpentIDs) merge(other SpentIDs) { *s = append(slices.Clip(*s), other...).newest(KeptIDs) }

// newest returns a copy of the newest ids, n at most.
func (s SpentIDs) newest(n int) SpentIDs { return slices.Clone(s[max(0, len(s)-spentBytes*n):]) }

// SpentIn returns the ids of all messages that a session has accepted, as far as
// its record keeps them.
func SpentIn(st *State) SpentIDs {
	var last []string
	for _, r := range st.Receipts {
		last = append(last, r.MessageID)
	}
	all := slices.Clone(st.Spent)
	all.Add(last...)
	return all.newest(RecordedIDs)
}

// Has reports whether an id is kept.
func (s SpentIDs) Has(id string) bool {
	sum := sha256.Sum256([]byte(id))
	for known := range slices.Chunk(s, spentBytes) {
		if bytes.Equal(known, sum[:spentBytes]) {
			return true
		}
	}
	return false
}
