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

// innerServices are the services that only the frontend's process talks to.
var innerServices = []string{
	string(primitives.HistoryService),
	string(primitives.MatchingService),
	string(primitives.WorkerService),
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
		ClusterMetadata:     s.clusterMetadata(),
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

func (s *stack) clusterMetadata() *cluster.Config {
	return &cluster.Config{
		FailoverVersionIncrement: 10,
		MasterClusterName:        clusterName,
		CurrentClusterName:       clusterName,
		ClusterInformation: map[string]cluster.ClusterInformation{
			clusterName: {
				Enabled:                true,
				InitialFailoverVersion: 1,
				RPCAddress:             s.report.TemporalAddress,
			},
		},
	}
}

func (s *stack) services(inner map[string]*launch.Claim) map[string]config.Service {
	services := map[string]config.Service{
		string(primitives.FrontendService): {RPC: config.RPC{GRPCPort: s.temporal.Number, BindOnIP: s.opts.IP}},
	}
	for name, claim := range inner {
		services[name] = config.Service{RPC: config.RPC{GRPCPort: claim.Number, BindOnIP: "127.0.0.1"}}
	}
	return services
}

// temporalHosts replaces the gossip by which services of a cluster find each
// other.
func (s *stack) temporalHosts(inner map[string]*launch.Claim) map[primitives.ServiceName]static.Hosts {
	hosts := map[primitives.ServiceName]static.Hosts{
		primitives.FrontendService: static.SingleLocalHost(s.report.TemporalAddress),
	}
	for name, claim := range inner {
		hosts[primitives.ServiceName(name)] = static.SingleLocalHost(joinPort("127.0.0.1", claim.Number))
	}
	return hosts
}
