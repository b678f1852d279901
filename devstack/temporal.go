package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	operatorservice "go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/temporal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/sojourn-run/sojourn/devstack/internal/launch"
)

// startTemporal runs the four services of a Temporal server over one SQLite
// file.
func (s *stack) startTemporal(ctx context.Context) (func(), error) {
	sql, err := s.openDatabase()
	if err != nil {
		return nil, err
	}
	s.inner = innerAddress()
	inner, err := s.claimInnerPorts()
	if err != nil {
		return nil, err
	}
	// The services bind when they are made, not when they are started.
	s.temporal.Release()
	for _, c := range inner {
		c.Release()
	}
	srv, err := temporal.NewServer(
		temporal.WithConfig(s.temporalConfig(sql, inner)),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(s.temporalHosts(inner)),
		temporal.WithDynamicConfigClient(s.dynamicConfig()),
		temporal.WithLogger(temporalLog{s.log.With("server", "temporal")}),
	)
	if err != nil {
		return nil, fmt.Errorf("configure: %w", err)
	}
	if err := srv.Start(); err != nil {
		return nil, err
	}
	stop := func() {
		if err := srv.Stop(); err != nil {
			s.log.Error("stop Temporal", "error", err)
		}
	}
	return stop, s.prepareNamespace(ctx)
}

// innerAddress returns the address of the ports that are not needed outside the
// process. If the system has more than one loopback address, it is one that is
// hardly used: a port of 127.0.0.1 may become a connection's before the server
// binds it.
func innerAddress() string {
	own := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
	l, err := net.Listen("tcp", own+":0")
	if err != nil {
		return "127.0.0.1"
	}
	_ = l.Close() // nothing has connected
	return own
}

// claimInnerPorts holds free ports for the server's internal use.
func (s *stack) claimInnerPorts() (map[string]*launch.Claim, error) {
	claims := map[string]*launch.Claim{}
	for _, service := range innerPorts {
		ip := s.inner
		if service == frontendHTTP {
			ip = s.opts.IP
		}
		c, err := launch.Port{Flag: service}.Claim(ip)
		if err != nil {
			return nil, err
		}
		claims[service] = c
	}
	return claims, nil
}

// dynamicConfig returns the server's tuning.
func (s *stack) dynamicConfig() dynamicconfig.StaticClient {
	settings := map[string]any{
		// The server polls its task queues 20 times a second per shard, which
		// makes every step of a workflow take 50 ms.
		"history.transferProcessorMaxPollRPS":   5000,
		"history.timerProcessorMaxPollRPS":      5000,
		"history.visibilityProcessorMaxPollRPS": 5000,
		// At the stock ten, the eleventh update makes the server drop the workflow from
		// memory and abort the other ten; all are sent again, and thirty concurrent
		// callers may so prevent each other from ever succeeding.
		"history.maxInFlightUpdates": 1000,
		// At the stock one, a second query that finds a workflow task in progress is refused:
		// the Web UI shows "429 Too Many Requests" in the place of a session's details.
		"history.maxBufferedQueryCount": 100,
		// At the stock 2 MB, three large signals that come while a workflow task
		// runs fail that task: under a flood of them none ever completes, and the
		// run cannot continue as new before its history is full.
		"history.maximumBufferedEventsSizeInBytes": 67108864,
		// The buffered events are in the run's mutable state, and written with the task
		// in one transaction.
		"limit.mutableStateSize.error": 134217728,
		"system.transactionSizeLimit":  134217728,
		// Fairness keys and weights of tasks are ignored without it.
		"matching.enableFairness": true,
		// Partitions spread a queue over hosts; there is one host.
		"matching.numTaskqueueReadPartitions":  1,
		"matching.numTaskqueueWritePartitions": 1,
		// The default of ten calls a second slows down lists and counts.
		"frontend.namespaceRPS.visibility": 1000,
		// The default fits a machine that does nothing else.
		"history.hostLevelCacheMaxSize": 8192,
		// It would call a server outside.
		"frontend.enableServerVersionCheck": false,
	}
	for key, value := range s.opts.TemporalConfig {
		settings[key] = value
	}
	client := make(dynamicconfig.StaticClient, len(settings))
	for key, value := range settings {
		client[dynamicconfig.MakeKey(key)] = value
	}
	return client
}

// prepareNamespace waits until the frontend serves, and adds the search
// attributes that a folder of an earlier version lacks.
func (s *stack) prepareNamespace(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+s.report.TemporalAddress,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	if err := waitUntilServing(ctx, conn); err != nil {
		return err
	}
	return ensureSearchAttributes(ctx, operatorservice.NewOperatorServiceClient(conn))
}

func waitUntilServing(ctx context.Context, conn grpc.ClientConnInterface) error {
	health := grpc_health_v1.NewHealthClient(conn)
	query := &grpc_health_v1.HealthCheckRequest{Service: "temporal.api.workflowservice.v1.WorkflowService"}
	retry := time.NewTicker(5 * time.Millisecond)
	defer retry.Stop()
	for {
		answer, err := health.Check(ctx, query, grpc.WaitForReady(true))
		if err == nil && answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("frontend does not serve (%v, %v): %w", answer.GetStatus(), err, ctx.Err())
		case <-retry.C:
		}
	}
}
