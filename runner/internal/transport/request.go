package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/jsonl"
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

// order is one line of an input.
type order struct {
	ID     string          `json:"id"`
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Body   json.RawMessage `json:"body"`
}

// send sends the inputs, one request after the other, while the event stream is
// open: the events of a request must not be missed.
func (c *conversation) send() {
	for data := range c.host.Inputs() {
		for order := range bytes.Lines(data) {
			if c.stream.wait(c.alive) {
				c.host.keep(event.DirOut, []line{c.answer(order)})
			}
		}
	}
}

// answer executes one line and returns the line with its result.
func (c *conversation) answer(given []byte) line {
	var o order
	if err := json.Unmarshal(given, &o); err != nil {
		return failed(o.ID, fmt.Errorf("malformed request: %w", err))
	}
	if o.Method == "" {
		return failed(o.ID, errors.New("malformed request: field \"method\" is empty"))
	}
	status, body, cut, err := c.exchange(o)
	if err != nil {
		return failed(o.ID, err)
	}
	return line{responded(o.ID, status, body), cut}
}

// exchange sends a request and reads the response, which is cut if it is too
// long.
func (c *conversation) exchange(o order) (status int, body []byte, cut *traffic.Cut, err error) {
	ctx, cancel := context.WithTimeout(c.draining, c.spec.RequestTimeout)
	defer cancel()
	if string(o.Body) == "null" {
		o.Body = nil
	}
	req, err := c.request(ctx, o.Method, o.Path, bytes.NewReader(o.Body))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("malformed request: %w", err)
	}
	if len(o.Body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, nil, nil, c.why(err)
	}
	defer resp.Body.Close()
	kept := jsonl.LineCutter{Max: c.host.MaxLine}
	if _, err := io.Copy(&kept, resp.Body); err != nil {
		return 0, nil, nil, c.why(err)
	}
	body, cut = kept.Take()
	return resp.StatusCode, body, cut, nil
}

// errEnded is the error of a request that has no response because the agent
// ended.
var errEnded = errors.New("no response before the agent's end")

// dying is how long the process may take to end after a broken connection: a
// killed process closes its sockets a little earlier.
const dying = time.Second

// why describes a failure.
func (c *conversation) why(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no response within %v", c.spec.RequestTimeout)
	case !c.pause(c.dying):
		return fmt.Errorf("%w: %w", errEnded, bare(err))
	}
	return fmt.Errorf("no response: %w", bare(err))
}

func head(id string) []byte {
	return wire.AppendString([]byte(`{"type":"sojourn.response","id":`), id)
}

func failed(id string, err error) line {
	text := wire.AppendString(append(head(id), `,"error":`...), err.Error())
	if errors.Is(err, errEnded) {
		text = append(text, `,"ended":true`...)
	}
	return line{text: string(append(text, '}'))}
}

// responded copies a body once, as it may be huge.
func responded(id string, status int, body []byte) string {
	var line strings.Builder
	line.Grow(len(body) + len(id) + 100)
	line.Write(head(id))
	line.WriteString(`,"status":` + strconv.Itoa(status))
	if len(body) > 0 {
		line.WriteString(`,"body":`)
		writeValue(&line, body)
	}
	line.WriteByte('}')
	return line.String()
}

// writeValue writes a body as a JSON value on one line.
func writeValue(line *strings.Builder, body []byte) {
	switch {
	case !json.Valid(body):
		line.Write(wire.AppendString(nil, string(body)))
	case bytes.ContainsAny(body, "\n\r"):
		var compact bytes.Buffer
		_ = json.Compact(&compact, body) // it is valid
		line.Write(compact.Bytes())
	default:
		line.Write(body)
	}
}
