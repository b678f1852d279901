package main

import (
	"time"

	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/primitives"

	"github.com/sojourn-run/sojourn/devstack/internal/launch"
)

// clusterName is written into every namespace of a data folder: it must not
// change.
const clusterName = "active"

// frontendHTTP is the frontend's second port. The server completes operations
// that are called over HTTP through it, and reports an error if there is none.
const frontendHTTP = "frontend-http"

// innerPorts are the ports that only the server itself uses, by service.
var innerPorts = []string{
	string(primitives.HistoryService),
	string(primitives.MatchingService),
	string(primitives.WorkerService),
	frontendHTTP,
}

func (s *stack) temporalConfig(sql *config.SQL, inner map[string]*launch.Claim) *config.Config {
	const store = "sqlite"
	archivalOff := config.Archival{
		History:    config.HistoryArchival{State: config.ArchivalDisabled},
		Visibility: config.VisibilityArchival{State: config.ArchivalDisabled},
	}
	return &config.Config{
		Global: config.Global{Membership: config.Membership{
			MaxJoinDuration:  30 * time.Second,
			BroadcastAddress: s.host,
		}},
		Persistence: config.Persistence{
			DefaultStore:     store,
			VisibilityStore:  store,
			NumHistoryShards: 1, // More changed nothing over one SQLite writer.
			DataStores:       map[string]config.DataStore{store: {SQL: sql}},
		},
		ClusterMetadata:     s.clusterMetadata(inner[frontendHTTP].Number),
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            s.services(inner),
		Archival:            archivalOff,
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: config.ArchivalDisabled},
		}},
		PublicClient: config.PublicClient{HostPort: s.report.TemporalAddress},
	}
}

func (s *stack) clusterMetadata(httpPort int) *cluster.Config {
	return &cluster.Config{
		FailoverVersionIncrement: 10,
		MasterClusterName:        clusterName,
		CurrentClusterName:       clusterName,
		ClusterInformation: map[string]cluster.ClusterInformation{
			clusterName: {
				Enabled:                true,
				InitialFailoverVersion: 1,
				RPCAddress:             s.report.TemporalAddress,
				HTTPAddress:            joinPort(s.host, httpPort),
			},
		},
	}
}

func (s *stack) services(inner map[string]*launch.Claim) map[string]config.Service {
	return map[string]config.Service{
		string(primitives.FrontendService): {RPC: config.RPC{
			GRPCPort: s.temporal.Number,
			HTTPPort: inner[frontendHTTP].Number,
			BindOnIP: s.opts.IP,
		}},
		string(primitives.HistoryService):  s.innerService(inner[string(primitives.HistoryService)]),
		string(primitives.MatchingService): s.innerService(inner[string(primitives.MatchingService)]),
		string(primitives.WorkerService):   s.innerService(inner[string(primitives.WorkerService)]),
	}
}

func (s *stack) innerService(c *launch.Claim) config.Service {
	return config.Service{RPC: config.RPC{GRPCPort: c.Number, BindOnIP: s.inner}}
}

// temporalHosts replaces the gossip by which services of a cluster find each
// other.
func (s *stack) temporalHosts(inner map[string]*launch.Claim) map[primitives.ServiceName]static.Hosts {
	at := func(name primitives.ServiceName) static.Hosts {
		return static.SingleLocalHost(joinPort(s.inner, inner[string(name)].Number))
	}
	return map[primitives.ServiceName]static.Hosts{
		primitives.FrontendService: static.SingleLocalHost(s.report.TemporalAddress),
		primitives.HistoryService:  at(primitives.HistoryService),
		primitives.MatchingService: at(primitives.MatchingService),
		primitives.WorkerService:   at(primitives.WorkerService),
	}
}
