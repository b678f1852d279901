package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/sojourn-run/sojourn/devstack/internal/launch"
)

const (
	// namespace is the Temporal namespace made at start.
	namespace = "default"
	// bucket is the S3 bucket made at start.
	bucket = "sojourn"
	// region is what the gateway's clients must sign for.
	region = "us-east-1"
	// startTimeout bounds the wait for any one server to answer.
	startTimeout = 60 * time.Second
)

// stack is the set of embedded servers. It belongs to one goroutine.
type stack struct {
	opts   launch.Options
	dir    *launch.DataDir
	keys   launch.Credentials
	log    *slog.Logger
	report launch.Report

	// host is where the servers are reached, opts.IP where they bind.
	host                   string
	temporal, ui, nats, s3 *launch.Claim

	// running are the servers that are up, in the order of their start.
	running []part
	// broke gets the error of a server that ends by itself.
	broke chan error
}

// part is one embedded server that is up.
type part struct {
	name string
	// stop ends the server and returns when it has ended.
	stop func()
}

// newStack holds all ports before any server starts, so a taken port is found
// at once and nothing has to be undone.
func newStack(opts launch.Options, dir *launch.DataDir, log *slog.Logger) (*stack, error) {
	keys, err := dir.Credentials()
	if err != nil {
		return nil, err
	}
	s := &stack{
		opts: opts, dir: dir, keys: keys, log: log,
		host:  launch.Reachable(opts.IP),
		broke: make(chan error, 4),
	}
	claims := []struct {
		wish launch.Port
		got  **launch.Claim
	}{{opts.Temporal, &s.temporal}, {opts.UI, &s.ui}, {opts.NATS, &s.nats}, {opts.S3, &s.s3}}
	for _, c := range claims {
		if *c.got, err = c.wish.Claim(opts.IP); err != nil {
			return nil, err
		}
	}
	s.report = s.describe()
	return s, nil
}

func (s *stack) describe() launch.Report {
	return launch.Report{
		TemporalAddress:   s.address(s.temporal),
		TemporalNamespace: namespace,
		UIURL:             "http://" + s.address(s.ui),
		NATSURL:           "nats://" + s.address(s.nats),
		S3Endpoint:        "http://" + s.address(s.s3),
		S3Region:          region,
		Bucket:            bucket,
		DataDir:           s.opts.DataDir,
		EnvFile:           s.opts.EnvFile,
		PID:               os.Getpid(),
	}
}

func (s *stack) address(c *launch.Claim) string {
	return net.JoinHostPort(s.host, strconv.Itoa(c.Number))
}

func (s *stack) noticePorts(w io.Writer) {
	for _, c := range []*launch.Claim{s.temporal, s.ui, s.nats, s.s3} {
		c.Notice(w)
	}
	if ip := net.ParseIP(s.opts.IP); !ip.IsLoopback() {
		fmt.Fprintf(w, "%s: warning: on %s anyone who reaches this machine can use Temporal, its Web UI and NATS without a password\n",
			launch.Program, s.opts.IP)
	}
}

// start brings up the servers one after the other; stop undoes it, also after
// a failure half way.
func (s *stack) start(ctx context.Context, stderr io.Writer) error {
	progress := launch.StartProgress(stderr)
	defer progress.Stop()
	steps := []struct {
		name  string
		start func(context.Context) (stop func(), err error)
	}{
		{"NATS", s.startNATS},
		{"the S3 gateway", s.startS3},
		{"Temporal", s.startTemporal},
		{"the Web UI", s.startUI},
	}
	for _, step := range steps {
		progress.Step(step.name)
		stop, err := step.start(ctx)
		if stop != nil {
			s.running = append(s.running, part{step.name, stop})
		}
		if err != nil {
			return fmt.Errorf("start %s: %w", step.name, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// wait returns nil when ctx ends, or the error of the first server that ends by
// itself.
func (s *stack) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.broke:
		return err
	}
}

// stop ends the servers, the last started first: Temporal's callers before it,
// and the stores behind everything last.
func (s *stack) stop() {
	for _, p := range slices.Backward(s.running) {
		begun := time.Now()
		p.stop()
		s.log.Debug("stopped", "server", p.name, "took", time.Since(begun))
	}
	s.running = nil
}
