package session

import (
	"encoding/json"
	"fmt"

	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
)

// Record is the part of a session that outlives its runs: its options and its
// results. It has no status. It is stored in the archive, in the session's list
// data.
type Record struct {
	Options    Options     `json:"options"`
	Turns      int         `json:"turns"`
	Usage      event.Usage `json:"usage"`
	CostUSD    *float64    `json:"costUSD,omitempty"`
	WorkMS     int64       `json:"workMs,omitempty"`
	Ticks      *int        `json:"ticks,omitempty"`
	Native     int         `json:"native"`
	Executions int         `json:"executions"`
	// Spent are the ids of the messages that were accepted.
	Spent       SpentIDs `json:"spent,omitempty"`
	LastSeq     uint64   `json:"lastSeq"`
	LastBlockID string   `json:"lastBlockId,omitempty"`
	LastBlock   string   `json:"lastBlock,omitempty"`
	// ChildTokens as in State.
	ChildTokens int64 `json:"childTokens,omitempty"`
	// Copying: the session is being made of others, and can't be opened.
	Copying bool `json:"copying,omitempty"`
}

// Apply writes the record into a session's list data.
func (r Record) Apply(d *archive.ListData) error {
	carry, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("session %s: encode record: %w", d.ID, err)
	}
	d.Title, d.Agent, d.Profile, d.Model = r.Options.Title, r.Options.Agent, r.Options.Profile, r.Options.Model
	d.Tags, d.Metadata, d.Carry = r.Options.Tags, r.Options.Metadata, carry
	return nil
}

// RecordOf reads the record out of a session's list data.
func RecordOf(d archive.ListData) (Record, error) {
	var r Record
	if len(d.Carry) == 0 {
		return r, fmt.Errorf("session %s: the archive's record says nothing to go on from", d.ID)
	}
	if err := json.Unmarshal(d.Carry, &r); err != nil {
		return r, fmt.Errorf("session %s: decode record: %w", d.ID, err)
	}
	return r, nil
}
