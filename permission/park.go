package permission

import (
	"fmt"
	"time"
)

// Park is how long a turn waits for a person before it is parked, in milliseconds: its
// agent is stopped and its sandbox given up until the answer arrives. It counts from the
// agent's last progress. 0: the default; ParkNever: never.
type Park int64

const (
	// ParkNever keeps the agent and its sandbox while a request is unanswered.
	ParkNever Park = -1
	// DefaultPark is the meaning of 0 unless the profile sets another time.
	DefaultPark = time.Hour

	maxPark = Park(MaxMS)
)

// MaxMS is the most milliseconds of a setting: 100 years. Far more would overflow a
// time.Duration and be over at once.
const MaxMS = int64(100 * 365 * 24 * time.Hour / time.Millisecond)

// Validate returns a *FieldError for an invalid time.
func (p Park) Validate() error {
	if p < ParkNever || p > maxPark {
		return &FieldError{"parkMs", fmt.Sprintf("is %d", int64(p)), "-1 (never), 0 (the default), or the milliseconds of at most 100 years"}
	}
	return nil
}

// After returns p as a duration; 0 for never.
func (p Park) After() time.Duration {
	switch p {
	case 0:
		return DefaultPark
	case ParkNever:
		return 0
	}
	return time.Duration(p) * time.Millisecond
}
