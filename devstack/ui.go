package main

import (
	"context"
	"strings"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
)

// startUI runs the Web UI against the embedded frontend, with all its dialogs:
// signal, update, reset, terminate, batches.
func (s *stack) startUI(ctx context.Context) (func(), error) {
	srv := uiserver.NewServer(uioptions.WithConfigProvider(s.uiConfig()))
	ended := make(chan error, 1)
	s.ui.Release()
	go func() { ended <- srv.Start() }()
	if err := waitForHTTP(ctx, s.report.UIURL, ended); err != nil {
		srv.Stop()
		return nil, err
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended = s.watch(serving, "the Web UI", ended)
	return func() {
		cancel()
		srv.Stop()
		<-ended
	}, nil
}

func (s *stack) uiConfig() *uiconfig.Config {
	host := s.opts.IP
	if strings.Contains(host, ":") {
		host = "[" + host + "]" // It is prepended to ":port" unchanged.
	}
	return &uiconfig.Config{
		Host:                host,
		Port:                s.ui.Number,
		TemporalGRPCAddress: s.report.TemporalAddress,
		DefaultNamespace:    namespace,
		EnableUI:            true,
		HideLogs:            true,
		// No browser sends a secure cookie back over plain HTTP.
		CORS: uiconfig.CORS{CookieInsecure: true},
		// It would fetch news from outside.
		DisableNewsFetch: true,
	}
}
