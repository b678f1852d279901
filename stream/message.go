package stream

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// The headers of a message. All but Part, Keyed and Keys are always set.
const (
	// headerFirst and headerLast are the first and last number of the batch,
	// also on its parts.
	headerFirst = "Sojourn-First"
	headerLast  = "Sojourn-Last"
	// headerEpoch and headerAttempt are the highest fence that the log has seen,
	// including this message's.
	headerEpoch   = "Sojourn-Epoch"
	headerAttempt = "Sojourn-Attempt"
	// headerPosition is that of the last whole event so far that came from a
	// spool.
	headerPosition = "Sojourn-Position"
	// headerBatch is the batch's id.
	headerBatch = "Sojourn-Batch"
	// headerPart is number/count of a batch that is sent in parts.
	headerPart = "Sojourn-Part"
	// headerKeyed is the stream number of the last message before this one
	// that has keys.
	headerKeyed = "Sojourn-Keyed"
	// headerKeys are the keys of the last emissions, oldest first.
	headerKeys = "Sojourn-Keys"
)

// headerRoom is how much of the server's max_payload headers may take.
const headerRoom = 8 << 10

// message is one message of the stream: a batch, or a part of one.
type message struct {
	// at is the message's own number in the stream.
	at          uint64
	first, last uint64
	fence       Fence
	pos         Position
	batch       string
	part, parts int
	keyed       uint64
	keys        []string
	data        []byte
}

// header returns the wire form of all but at and data.
func (m message) header() nats.Header {
	h := nats.Header{
		headerFirst:    {strconv.FormatUint(m.first, 10)},
		headerLast:     {strconv.FormatUint(m.last, 10)},
		headerEpoch:    {strconv.FormatUint(m.fence.Epoch, 10)},
		headerAttempt:  {strconv.Itoa(m.fence.Attempt)},
		headerPosition: {m.pos.String()},
		headerBatch:    {m.batch},
	}
	if m.parts > 1 {
		h[headerPart] = []string{strconv.Itoa(m.part) + "/" + strconv.Itoa(m.parts)}
	}
	if m.keyed > 0 {
		h[headerKeyed] = []string{strconv.FormatUint(m.keyed, 10)}
	}
	if len(m.keys) > 0 {
		h[headerKeys] = []string{strings.Join(m.keys, ",")}
	}
	return h
}

// headerReader reads fields and keeps the first fault.
type headerReader struct {
	header nats.Header
	err    error
}

// get reads a header by its exact name, which avoids canonical forms.
func (r *headerReader) get(name string) string {
	if v := r.header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (r *headerReader) fault(name, value string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: header %s is %q", ErrCorrupt, name, value)
	}
}

func (r *headerReader) uint(name, value string) uint64 {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		r.fault(name, value)
	}
	return n
}

func (r *headerReader) int(name, value string) int {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		r.fault(name, value)
	}
	return int(n)
}

func (r *headerReader) position() Position {
	value := r.get(headerPosition)
	epoch, rest, _ := strings.Cut(value, ".")
	offset, index, _ := strings.Cut(rest, ".")
	return Position{
		Epoch:  r.uint(headerPosition, epoch),
		Offset: int64(r.int(headerPosition, offset)),
		Index:  r.int(headerPosition, index),
	}
}

func (r *headerReader) parts() (part, parts int) {
	value := r.get(headerPart)
	if value == "" {
		return 1, 1
	}
	a, b, _ := strings.Cut(value, "/")
	part, parts = r.int(headerPart, a), r.int(headerPart, b)
	if part < 1 || part > parts {
		r.fault(headerPart, value)
	}
	return part, parts
}

// parseMessage reads a message of the stream, whose number is at.
func parseMessage(at uint64, header nats.Header, data []byte) (message, error) {
	r := headerReader{header: header}
	m := message{
		at:    at,
		first: r.uint(headerFirst, r.get(headerFirst)),
		last:  r.uint(headerLast, r.get(headerLast)),
		fence: Fence{
			Epoch:   r.uint(headerEpoch, r.get(headerEpoch)),
			Attempt: r.int(headerAttempt, r.get(headerAttempt)),
		},
		pos:   r.position(),
		batch: r.get(headerBatch),
		data:  data,
	}
	m.part, m.parts = r.parts()
	if v := r.get(headerKeyed); v != "" {
		m.keyed = r.uint(headerKeyed, v)
	}
	if v := r.get(headerKeys); v != "" {
		m.keys = strings.Split(v, ",")
	}
	if m.first < 1 || m.last < m.first {
		r.fault(headerLast, r.get(headerLast))
	}
	if m.batch == "" {
		r.fault(headerBatch, "")
	}
	return m, r.err
}

// sequence returns the stream number that the server assigned to a message, in
// answers to direct gets and in what it republishes.
func sequence(header nats.Header, name string) (uint64, error) {
	r := headerReader{header: header}
	n := r.uint(name, r.get(name))
	return n, r.err
}
