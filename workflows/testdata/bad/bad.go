// Package bad breaks determinism on purpose, once in each workflow: the check
// of the real workflows must report every one of them. Nothing imports it.
package bad

import (
	"os"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/workflow"
)

// Clock reads the wall clock.
func Clock(workflow.Context) (time.Time, error) { return time.Now(), nil }

// Identity makes a random id outside a side effect.
func Identity(workflow.Context) (string, error) { return uuid.NewString(), nil }

// RawIdentity does so by the other constructor.
func RawIdentity(workflow.Context) (uuid.UUID, error) { return uuid.New(), nil }

// Environment lets the worker's environment decide.
func Environment(workflow.Context) (string, error) { return os.Getenv("HOME"), nil }

// MapOrder depends on the order of a map.
func MapOrder(_ workflow.Context, in map[string]string) (out []string, err error) {
	for k := range in {
		out = append(out, k)
	}
	return out, nil
}

// Goroutine runs outside the workflow's scheduler.
func Goroutine(workflow.Context) error {
	go func() {}()
	return nil
}

// Hidden reaches the clock through functions that are no workflows.
func Hidden(workflow.Context) (string, error) { return stamp(), nil }

func stamp() string { return stampAt() }

func stampAt() string { return time.Now().String() }

// Handler has its fault in a function literal, as message handlers have.
func Handler(ctx workflow.Context) error {
	return workflow.SetQueryHandler(ctx, "now", func() (int64, error) { return time.Now().Unix(), nil })
}

// Allowed is not to be reported: a side effect's result is in history.
func Allowed(ctx workflow.Context) (id string, err error) {
	err = workflow.SideEffect(ctx, func(workflow.Context) any { return uuid.NewString() }).Get(&id)
	return id, err
}
