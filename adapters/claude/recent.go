package claude

import "hash/maphash"

// rememberedLines is how many lines a compaction may keep: it writes those again,
// and they are the latest of a conversation that fits a model's memory.
const rememberedLines = 1 << 16

// recent remembers the ids of the lines read last, in bounded memory. The zero
// value is empty.
type recent struct {
	seed maphash.Seed
	// known has the ids' hashes; ring has them in order, the oldest at next.
	known map[uint64]struct{}
	ring  []uint64
	next  int
}

// again reports whether an id was read before, and remembers it.
func (r *recent) again(id string) bool {
	if r.known == nil {
		r.seed, r.known = maphash.MakeSeed(), map[uint64]struct{}{}
	}
	key := maphash.String(r.seed, id)
	if _, before := r.known[key]; before {
		return true
	}
	r.known[key] = struct{}{}
	if len(r.ring) < rememberedLines {
		r.ring = append(r.ring, key)
		return false
	}
	delete(r.known, r.ring[r.next])
	r.ring[r.next] = key
	r.next = (r.next + 1) % rememberedLines
	return false
}
