package main

import (
	"context"
	"log/slog"
	"os"
	"slices"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// temporalLog writes the Temporal server's log to the devstack's.
type temporalLog struct{ log *slog.Logger }

var (
	_ log.Logger     = temporalLog{}
	_ log.WithLogger = temporalLog{}
)

func (l temporalLog) Debug(msg string, tags ...tag.Tag)  { l.write(slog.LevelDebug, msg, tags) }
func (l temporalLog) Info(msg string, tags ...tag.Tag)   { l.write(slog.LevelInfo, msg, tags) }
func (l temporalLog) Warn(msg string, tags ...tag.Tag)   { l.write(slog.LevelWarn, msg, tags) }
func (l temporalLog) Error(msg string, tags ...tag.Tag)  { l.write(slog.LevelError, msg, tags) }
func (l temporalLog) DPanic(msg string, tags ...tag.Tag) { l.write(slog.LevelError, msg, tags) }

// Panic and Fatal don't return: the server's code relies on that.
func (l temporalLog) Panic(msg string, tags ...tag.Tag) {
	l.write(slog.LevelError, msg, tags)
	panic(msg)
}

func (l temporalLog) Fatal(msg string, tags ...tag.Tag) {
	l.write(slog.LevelError, msg, tags)
	os.Exit(1)
}

func (l temporalLog) With(tags ...tag.Tag) log.Logger {
	return temporalLog{slog.New(l.log.Handler().WithAttrs(attributes(tags)))}
}

// harmless are errors of the server that don't concern its operator. If a client
// has canceled its request, the server can't add its own measurements to the
// response (common/metrics/grpc.go there).
var harmless = map[string]bool{"unable to add metrics baggage to gRPC trailer": true}

func (l temporalLog) write(level slog.Level, msg string, tags []tag.Tag) {
	if harmless[msg] || slices.ContainsFunc(tags, givenUp) {
		level = slog.LevelDebug
	}
	if l.log.Enabled(context.Background(), level) {
		l.log.LogAttrs(context.Background(), level, msg, attributes(tags)...)
	}
}

// givenUp reports whether a tag is the error of a request whose caller did not wait for
// the answer, as the server's own workers don't when it ends.
func givenUp(t tag.Tag) bool {
	return t.Key() == "error" && t.Value() == context.Canceled.Error()
}

func attributes(tags []tag.Tag) []slog.Attr {
	attrs := make([]slog.Attr, len(tags))
	for i, t := range tags {
		attrs[i] = slog.Any(t.Key(), t.Value())
	}
	return attrs
}
