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
	// stopTimeout bounds the wait for any one server to end. Temporal waits two
	// minutes for a client that connected and never sent anything; nothing is lost by
	// not waiting, since every store also recovers from a kill.
	stopTimeout = 10 * time.Second
)

// stack is the set of embedded servers. It must be used by one goroutine.
type stack struct {
	opts   launch.Options
	dir    *launch.DataDir
	keys   launch.Credentials
	log    *slog.Logger
	level  *slog.LevelVar
	report launch.Report

	// host is the address of the servers, opts.IP the one that they bind.
	host string
	// inner is the address of Temporal's servers that only Temporal itself uses.
	inner                  string
	temporal, ui, nats, s3 *launch.Claim

	// running are the running servers, in the order of their start.
	running []part
	// broke receives the error of a server that ends by itself.
	broke chan error
}

// part is one running embedded server.
type part struct {
	name string
	// stop ends the server and returns when it has ended.
	stop func()
}

// newStack holds all ports before any server starts, so that a taken port is
// found at once and nothing has to be undone.
func newStack(opts launch.Options, dir *launch.DataDir, logs io.Writer) (*stack, error) {
	keys, err := dir.Credentials()
	if err != nil {
		return nil, err
	}
	level := &slog.LevelVar{}
	level.Set(opts.LogLevel)
	s := &stack{
		opts: opts, dir: dir, keys: keys,
		log:   slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: level})),
		level: level,
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
		fmt.Fprintf(w, "%s: warning: on %s anyone who reaches this machine can use Temporal and its Web UI without a password\n",
			launch.Program, s.opts.IP)
	}
}

// start starts the servers one after the other; stop undoes it, also after a
// failure half way.
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

// stop ends the servers, the last started first: the Web UI before Temporal,
// the stores last.
func (s *stack) stop() {
	if s.opts.LogLevel == slog.LevelWarn {
		// Services that stop one after the other log warnings about each other's
		// absence.
		s.level.Set(slog.LevelError)
	}
	for _, p := range slices.Backward(s.running) {
		s.end(p)
	}
	s.running = nil
}

func (s *stack) end(p part) {
	begun := time.Now()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.stop()
	}()
	select {
	case <-ended:
		s.log.Debug("stopped", "part", p.name, "took", time.Since(begun))
	case <-time.After(stopTimeout):
		s.log.Error("did not stop in time, going on without it", "part", p.name)
	}
}
