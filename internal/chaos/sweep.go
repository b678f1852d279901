package chaos

import (
	"context"
	"errors"
)

func Sweep(ctx context.Context, o Options, agent, part string) (Report, error) {
	return Report{}, errors.New("not yet")
}
