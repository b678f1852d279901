package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/sojourn-run/sojourn/activities"
	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/adapters/profiles"
	"github.com/sojourn-run/sojourn/agenttools/serving"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/archive/store"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/sandbox/local"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/session/profilestore"
	"github.com/sojourn-run/sojourn/stream"
	"github.com/sojourn-run/sojourn/tools"
)

// connectPatience is how long each service may take to answer at start.
const connectPatience = 10 * time.Second

// serve runs a worker until ctx ends.
func serve(ctx context.Context, s options, stdout io.Writer, logger *slog.Logger) (err error) {
	me, err := claim(s.dataDir)
	if err != nil {
		return err
	}
	defer me.lock.Close()
	// The next worker removes what this process and its helpers leave when they are
	// killed.
	if err := os.Setenv("TMPDIR", me.temp); err != nil {
		return err
	}
	p, err := connect(ctx, s, me, logger)
	defer func() { err = errors.Join(err, p.close()) }()
	if err == nil {
		err = p.makeHost(ctx, s, me, logger)
	}
	if err != nil {
		return err
	}
	if err := p.host.FailPredecessor(ctx); err != nil {
		// Their heartbeats time out soon, and then they are retried too.
		logger.Warn("turns of the worker before wait for their heartbeat timeout", "error", err)
	}
	set, err := startWorkers(p.temporal, me.id, s.versioning, p.session, p.host, p.jobs)
	if err != nil {
		return err
	}
	defer set.stop()
	defer watch(p.temporal, p.host, logger)()
	defer markReady(s.dataDir, me.id, logger)()
	if err := announce(stdout, s, me); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return endAgents(s, set, p.host)
	case err := <-set.fatal:
		return fmt.Errorf("worker: %w", err)
	}
}

// parts are what a worker is made of, apart from its pollers.
type parts struct {
	temporal client.Client
	events   *stream.Log
	session  *activities.Session
	jobs     *jobs.Activities
	host     *activities.Host
}

// connect connects to the services. The caller closes the parts, also those that there are
// after an error.
func connect(ctx context.Context, s options, me identity, logger *slog.Logger) (p parts, err error) {
	o, err := s.Temporal()
	if err != nil {
		return p, hinted{err, "see the TEMPORAL_* variables and the Temporal profile file"}
	}
	store, err := openArchive(ctx, s, o.Namespace)
	if err != nil {
		return p, err
	}
	if p.temporal, err = dialTemporal(ctx, o, store, me.id, logger); err != nil {
		return p, err
	}
	if p.events, err = dialStream(ctx, s, o.Namespace, logger); err != nil {
		return p, err
	}
	if err := setupArchive(ctx, store); err != nil {
		return p, err
	}
	p.session = &activities.Session{Stream: p.events, Archive: store, Agents: builtin.Registry()}
	p.jobs, err = newJobs(s, p.temporal, p.events, store)
	return p, err
}

// makeHost makes the host's activities.
func (p *parts) makeHost(ctx context.Context, s options, me identity, logger *slog.Logger) error {
	o, err := s.Temporal()
	if err != nil {
		return err
	}
	s.network.House = s.house(o.HostPort)
	answering := &serving.Server{Sessions: p.jobs.Sessions, Profile: p.jobs.Profile, Programs: tools.Caller{Temporal: p.temporal}}
	p.host, err = newHost(ctx, s, me, p.temporal, p.events, p.session.Archive, answering, logger)
	return err
}

func (p parts) close() (err error) {
	if p.host != nil {
		err = p.host.Close()
	}
	if p.events != nil {
		p.events.Close()
	}
	if p.temporal != nil {
		p.temporal.Close()
	}
	return err
}

// watch does the worker's periodic work, until the returned stop is called:
// sandboxes without an owner on this host, terminated sessions anywhere.
func watch(c client.Client, h *activities.Host, logger *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		short, cancel := context.WithTimeout(ctx, connectPatience)
		if _, err := session.EnsureReconciler(short, c); err != nil && ctx.Err() == nil {
			logger.Warn("sessions that are terminated may not be cleaned up when their host is gone", "error", err)
		}
		cancel()
		h.Watch(ctx)
	}()
	return func() { cancel(); <-done }
}

// endPatience bounds ending the agents of a host that is shut down.
const endPatience = 30 * time.Second

// endAgents ends the agents that would continue without the worker, if that is
// configured.
func endAgents(s options, set *workers, h *activities.Host) error {
	if !s.stopAgents {
		return nil
	}
	set.stop()
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	return h.StopAgents(ctx)
}

// reconnect is how a worker reconnects to a Temporal that was unavailable. The
// client's own pace goes up to ten seconds between attempts: much of the time for
// which an agent runs without a worker ([host.DefaultLease]).
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
	MinConnectTimeout: 5 * time.Second,
}

func dialTemporal(ctx context.Context, o client.Options, store *archive.Archive, host string, logger *slog.Logger) (c client.Client, err error) {
	if o, err = session.WithPayloads(o, store); err != nil {
		return nil, err
	}
	o.Identity = fmt.Sprintf("%s@%d", host, os.Getpid())
	o.Logger = log.NewStructuredLogger(logger)
	o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions, grpc.WithConnectParams(reconnect))
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	if c, err = client.DialContext(ctx, o); err != nil {
		return nil, hinted{fmt.Errorf("no Temporal answers at %s: %w", o.HostPort, err), "start it (make dev), or set TEMPORAL_ADDRESS"}
	}
	if err := ensureAttributes(ctx, c, o.Namespace, logger); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// ensureAttributes adds the search attributes that a namespace of an earlier
// build does not have: with one missing every session of it would stop.
func ensureAttributes(ctx context.Context, c client.Client, namespace string, logger *slog.Logger) error {
	missing, err := session.MissingSearchAttributes(ctx, c, namespace)
	if err != nil {
		// Sessions need the attributes, not this query, which may not be permitted.
		logger.Warn("the namespace's search attributes are not known", "namespace", namespace, "error", err)
		return nil
	}
	if len(missing) == 0 {
		return nil
	}
	if _, err := session.EnsureSearchAttributes(ctx, c, namespace); err != nil {
		return hinted{fmt.Errorf("namespace %s: %w", namespace, err), "sojourn setup makes them, with the rights to change the namespace"}
	}
	return nil
}

func dialStream(ctx context.Context, s options, namespace string, logger *slog.Logger) (*stream.Log, error) {
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	events, err := stream.Dial(ctx, s.NATS(), stream.Options{Namespace: namespace, Access: s.NATSAccess(), Logger: logger})
	if away, ok := errors.AsType[*stream.UnreachableError](err); ok {
		return nil, hinted{err, away.Hint}
	}
	return events, err
}

// openArchive sends no request to the store yet.
func openArchive(ctx context.Context, s options, namespace string) (*archive.Archive, error) {
	return archive.Open(ctx, archive.Options{
		Folder: s.Get("SOJOURN_ARCHIVE_DIR"), Bucket: s.Get("SOJOURN_BUCKET"), Prefix: s.Get("SOJOURN_PREFIX"), Namespace: namespace,
	})
}

func setupArchive(ctx context.Context, a *archive.Archive) error {
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	err := a.Setup(ctx)
	if away, ok := errors.AsType[*store.ConnectError](err); ok {
		return hinted{err, away.Hint}
	}
	return err
}

func newHost(ctx context.Context, s options, me identity, temporal client.Client, events *stream.Log, store *archive.Archive, tools *serving.Server, logger *slog.Logger) (*activities.Host, error) {
	provider, warnings, err := newProvider(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		logger.Warn(w)
	}
	infos, err := provider.List(ctx)
	if err != nil {
		return nil, err
	}
	var held []string
	for _, info := range infos {
		if info.Shares == "" {
			held = append(held, info.SandboxID)
		}
	}
	slots := host.NewSlots(s.capacity, held...)
	load, err := profileLoader(s, store)
	if err != nil {
		return nil, err
	}
	agents := builtin.Registry()
	sayMissing(agents, s, logger)
	return activities.NewHost(activities.HostOptions{
		Options: host.Options{
			ID: me.id, DataDir: s.dataDir, Secret: me.secret, IdleLease: s.idleLease, HealthEvery: s.healthEvery, MaxAge: s.maxAge, Temporal: temporal,
			Evict: func(ctx context.Context, id string, req session.EvictRequest) error {
				return session.Evict(ctx, temporal, id, req)
			},
			Provider: provider, Slots: slots, Agents: agents, Profile: load, Tools: tools.Call, Getenv: s.Get, Log: logger,
		},
		Stream: events, Archive: store, Memory: s.memory, Prices: s.prices, Warnings: warnings,
		Reconcile: func(ctx context.Context, d session.TerminatedRun) error { return session.Reconcile(ctx, temporal, d) },
	}), nil
}

// newProvider also returns what an operator must know of how agents are isolated
// here.
func newProvider(ctx context.Context, s options) (provider *local.Provider, warnings []string, err error) {
	provider, err = local.New(ctx, local.Options{
		DataDir: s.dataDir, PassEnv: s.passEnv(), Getenv: s.Get, Hide: s.hide, UnsafeLocal: s.unsafeLocal, Network: s.network,
	})
	switch {
	case errors.Is(err, local.ErrUnconfined):
		return nil, nil, hinted{err, "allow user namespaces here (docs/operations.md), or start with --unsafe-local: agents then see this user's files and processes"}
	case errors.Is(err, local.ErrUnguarded):
		return nil, nil, hinted{err, "make /dev/net/tun usable here (docs/operations.md), or start with --network host: agents then reach all that listens on this machine"}
	case err != nil:
		return nil, nil, err
	}
	if os.Geteuid() == 0 {
		warnings = append(warnings, "the worker runs as root, and so do its agents, though without most of root's capabilities: run it as a user of its own")
	}
	for _, notice := range []string{provider.Notice(), provider.NetworkNotice()} {
		if notice != "" {
			warnings = append(warnings, notice)
		}
	}
	return provider, warnings, nil
}

// sayMissing logs at start which agents are missing on this host. Few hosts have
// all; one that has none is of no use.
func sayMissing(agents adapters.Registry, s options, logger *slog.Logger) {
	found := 0
	for _, name := range agents.Names() {
		a, err := agents.Get(name)
		if err == nil {
			_, err = a.Locate(s.Get)
		}
		if err != nil {
			logger.Info("sessions of this agent will fail on this host", "agent", name, "error", err)
			continue
		}
		found++
	}
	if found == 0 {
		logger.Warn("no agent is installed on this host: every session will fail on it")
	}
}

// newJobs returns the activities of jobs.
func newJobs(s options, c client.Client, events *stream.Log, store *archive.Archive) (*jobs.Activities, error) {
	sessions, err := session.NewClient(session.ClientOptions{Temporal: c, Stream: events, Archive: store, Agents: builtin.Registry()})
	if err != nil {
		return nil, err
	}
	profile, err := profileLoader(s, store)
	return &jobs.Activities{Sessions: sessions, Archive: store, Profile: profile}, err
}

// profileLoader reads profiles from SOJOURN_PROFILES, with their ${NAME}s filled
// in from this process's environment.
func profileLoader(s options, a *archive.Archive) (func(context.Context, string) (adapters.Profile, error), error) {
	setting := s.Get("SOJOURN_PROFILES")
	if setting == "" {
		return nil, nil
	}
	store, err := profilestore.Open(setting, func() (*archive.Archive, error) { return a, nil })
	if err != nil {
		return nil, hinted{err, "SOJOURN_PROFILES names a folder with a folder per profile, or is " + profilestore.InArchive}
	}
	return func(ctx context.Context, id string) (adapters.Profile, error) {
		p, err := store.Load(ctx, id)
		if err != nil {
			return p, err
		}
		return profiles.Resolve(p, s.LookupEnv)
	}, nil
}

func announce(stdout io.Writer, s options, me identity) error {
	if s.json {
		return json.NewEncoder(stdout).Encode(map[string]any{"ready": true, "host": me.id, "dataDir": s.dataDir, "capacity": s.capacity, "pid": os.Getpid()})
	}
	_, err := fmt.Fprintf(stdout, "sojourn-worker is ready: host %s, up to %d sandboxes in %s\n", me.id, s.capacity, s.dataDir)
	return err
}
