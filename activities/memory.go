package activities

import "cmp"

// DefaultMemory is the default of Memory.
const DefaultMemory Memory = 64 << 20

// MinMemory is the least with which a session works.
const MinMemory Memory = 16 << 20

// Memory is about how many bytes of memory a session may use in its worker, whatever its
// agent writes: each buffer of content has a share of it. A line of content is bounded by
// [jsonl.DefaultMaxLine], which is not configurable: the live conversation and a restored
// one are truncated alike. Zero is DefaultMemory.
type Memory int64

func (m Memory) share(part Memory) int { return int(cmp.Or(m, DefaultMemory) / part) }

// records bounds the records that were received and not yet translated.
func (m Memory) records() int { return m.share(16) }

// queue bounds the events that wait for the stream.
func (m Memory) queue() int { return m.share(16) }

// chunk bounds one read of a transcript for the archive. By default that is a segment of
// the archive, which then needs no merging.
func (m Memory) chunk() int { return m.share(8) }

// snapshot bounds a transcript that can be archived only as a whole.
func (m Memory) snapshot() int { return m.share(8) }
