package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats-server/v2/server"
)

// startNATS runs NATS with JetStream in the data folder. It requires the folder's
// token.
func (s *stack) startNATS(context.Context) (func(), error) {
	store, err := s.dir.Folder("nats")
	if err != nil {
		return nil, err
	}
	srv, err := server.NewServer(&server.Options{
		ServerName:             "sojourn-devstack",
		Host:                   s.opts.IP,
		Port:                   s.nats.Number,
		JetStream:              true,
		StoreDir:               store,
		SyncAlways:             s.opts.NATSSyncAlways,
		NoSigs:                 true,
		DisableJetStreamBanner: true,
		// Not Authorization: the server would warn about a token in plain text.
		CustomClientAuthentication: token(s.keys.NATSToken),
	})
	if err != nil {
		return nil, fmt.Errorf("configure: %w", err)
	}
	srv.SetLoggerV2(natsLog{s.log.With("server", "nats")}, s.opts.LogLevel <= slog.LevelDebug, false, false)
	stop := func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	}
	s.nats.Release()
	srv.Start()
	if !srv.ReadyForConnections(startTimeout) || !srv.JetStreamEnabled() {
		return stop, errors.New("JetStream is not up, see the log above")
	}
	return stop, nil
}

// token is what a client must send.
type token string

var _ server.Authentication = token("")

// Check implements [server.Authentication].
func (t token) Check(c server.ClientAuthentication) bool {
	return subtle.ConstantTimeCompare([]byte(c.GetOpts().Token), []byte(t)) == 1
}

// natsLog writes the NATS server's log to the devstack's.
type natsLog struct{ log *slog.Logger }

var _ server.Logger = natsLog{}

func (l natsLog) Noticef(format string, v ...any) { l.log.Info(fmt.Sprintf(format, v...)) }
func (l natsLog) Warnf(format string, v ...any)   { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l natsLog) Errorf(format string, v ...any)  { l.log.Error(fmt.Sprintf(format, v...)) }
func (l natsLog) Debugf(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l natsLog) Tracef(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }

// Fatalf only logs: the server calls it if it could not start, which startNATS
// returns as an error.
func (l natsLog) Fatalf(format string, v ...any) { l.log.Error(fmt.Sprintf(format, v...)) }
