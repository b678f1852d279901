//go:build !linux

package local

import (
	"context"
	"errors"

	"github.com/sojourn-run/sojourn/sandbox"
)

// Provider cannot be made on this platform.
type Provider struct{ sandbox.Provider }

// New returns an error: this platform is not supported.
func New(context.Context, Options) (*Provider, error) {
	return nil, errors.New("sandbox local: sandboxes on this machine need Linux; run the worker on a Linux host")
}

// Notice returns "".
func (p *Provider) Notice() string { return "" }

// NetworkNotice returns "".
func (p *Provider) NetworkNotice() string { return "" }
