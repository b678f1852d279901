package session

import (
	"bytes"
	"crypto/sha256"
	"slices"
)

// SpentIDs are message ids that may not be used again, oldest first: of each
// the first bytes of its SHA-256. The zero value is empty.
type SpentIDs []byte

// spentBytes per id: of 100 000 ids no two are the same, but for one in four
// thousand million.
const spentBytes = 8

// Add keeps an id, and [KeptIDs] at most.
func (s *SpentIDs) Add(id string) {
	sum := sha256.Sum256([]byte(id))
	kept := append(*s, sum[:spentBytes]...)
	*s = slices.Clone(kept[max(0, len(kept)-spentBytes*KeptIDs):])
}

// Has reports whether an id was kept.
func (s SpentIDs) Has(id string) bool {
	sum := sha256.Sum256([]byte(id))
	for known := range slices.Chunk(s, spentBytes) {
		if bytes.Equal(known, sum[:spentBytes]) {
			return true
		}
	}
	return false
}
