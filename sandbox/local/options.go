package local

import (
	"errors"
	"os"

	"github.com/sojourn-run/sojourn/sandbox"
)

// ErrUnconfined means that the system does not allow the namespaces that isolate
// agents.
var ErrUnconfined = errors.New("agents can't be shut in on this machine")

// ErrUnguarded means that the system does not allow the network namespace and tun
// device that guard the agents' network.
var ErrUnguarded = errors.New("agents' network can't be guarded on this machine")

// Options configure New.
type Options struct {
	// DataDir has everything; made if absent, mode 0700. Required.
	DataDir string
	// Runner is the sojourn-runner program. Default: beside this program,
	// else in PATH.
	Runner string
	// PassEnv names variables of this process that agents may see (the
	// setting SOJOURN_PASS_ENV). Default: none.
	PassEnv []string
	// Getenv reads this process's environment. Default: os.Getenv.
	Getenv func(string) string
	// UserHome is the home to hide from agents. Default: the user's, by
	// $HOME; "-" hides none.
	UserHome string
	// Hide lists further files and folders that agents must not see, such as those
	// with the worker's own settings and keys; missing ones are skipped. Default:
	// none.
	Hide []string
	// Keep lists further files and folders below hidden ones that agents may
	// read, such as where their programs are installed. Default: what PATH
	// names.
	Keep []string
	// UnsafeLocal lets agents run without the namespaces that isolate them: they then
	// see the files and processes of this process's user. Default: New refuses such a
	// machine with [ErrUnconfined].
	UnsafeLocal bool
	// Network is what agents may reach. Mode's default is guarded if the machine
	// allows it, else host, which [Provider.NetworkNotice] reports; with guarded, New
	// refuses a machine that doesn't allow it with [ErrUnguarded]. URLs in the
	// variables of PassEnv are allowed too.
	Network sandbox.Network
	// Limits bound CopyIn. Default: those of sandbox.Limits.
	Limits sandbox.Limits
}

func (o Options) withDefaults() Options {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.UserHome == "" {
		o.UserHome = o.Getenv("HOME")
	}
	o.Limits = o.Limits.WithDefaults()
	return o
}
