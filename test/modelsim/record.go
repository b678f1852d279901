package modelsim

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Recorded is one request as it came in.
type Recorded struct {
	// Number counts the server's model requests from 1.
	Number  int             `json:"number"`
	Session string          `json:"session"`
	Body    json.RawMessage `json:"body"`
}

type recorder struct {
	keep int
	dir  string

	mu     sync.Mutex
	number int
	last   []Recorded
}

func (r *recorder) add(session string, body []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	if r.keep == 0 {
		return nil
	}
	if !json.Valid(body) {
		body = quoted(string(body))
	}
	r.last = append(r.last, Recorded{r.number, session, body})
	if err := r.write(r.number, body); err != nil {
		return err
	}
	if len(r.last) <= r.keep {
		return nil
	}
	gone := r.last[0].Number
	r.last = slices.Delete(r.last, 0, 1)
	return r.remove(gone)
}

func (r *recorder) file(number int) string {
	return filepath.Join(r.dir, fmt.Sprintf("request-%06d.json", number))
}

func (r *recorder) write(number int, body []byte) error {
	if r.dir == "" {
		return nil
	}
	if err := os.WriteFile(r.file(number), body, 0o600); err != nil {
		return fmt.Errorf("modelsim: record request %d: %w", number, err)
	}
	return nil
}

func (r *recorder) remove(number int) error {
	if r.dir == "" {
		return nil
	}
	if err := os.Remove(r.file(number)); err != nil {
		return fmt.Errorf("modelsim: forget request %d: %w", number, err)
	}
	return nil
}

func (r *recorder) list() []Recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.last)
}
