package stream

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Options configure the log. The zero value is ready to use.
type Options struct {
	// Name is the JetStream stream's name; default SOJOURN.
	Name string
	// Prefix is the beginning of every subject; default sojourn. It may contain dots.
	Prefix string
	// Namespace separates sets of sessions; default "default". Any text is allowed.
	Namespace string
	// MaxAge is how long events are kept; default 7 days, negative for ever. It
	// applies when the stream is made; later the operator may change it.
	MaxAge time.Duration
	// Replicas is the number of servers that hold the stream; default 1. It applies
	// when the stream is made.
	Replicas int
	// MaxBatch is the most bytes of events in one message; default 256 KiB, lowered
	// to what the server accepts.
	MaxBatch int
	// Timeout is the wait for one answer before the request is repeated; default 1 s.
	// It doubles with every try, up to four times its value.
	Timeout time.Duration
	// Access is how [Dial] authenticates to the server; default: by the URL.
	Access Access
	// Logger logs when the stream does not answer; default none.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	setDefault(&o.Name, "SOJOURN")
	setDefault(&o.Prefix, "sojourn")
	setDefault(&o.Namespace, "default")
	setDefault(&o.MaxAge, 7*24*time.Hour)
	setDefault(&o.Replicas, 1)
	setDefault(&o.MaxBatch, 256<<10)
	setDefault(&o.Timeout, time.Second)
	setDefault(&o.Logger, slog.New(slog.DiscardHandler))
	o.MaxAge = max(o.MaxAge, 0)
	return o
}

func setDefault[T comparable](v *T, def T) {
	if *v == *new(T) {
		*v = def
	}
}

func (o Options) check() error {
	if o.Name == "" || strings.Trim(o.Name, idChars) != "" {
		return fmt.Errorf("stream: option Name is %q: only letters, digits, _ and - are allowed", o.Name)
	}
	for token := range strings.SplitSeq(o.Prefix, ".") {
		if token == "" || strings.Trim(token, idChars) != "" {
			return fmt.Errorf("stream: option Prefix is %q: only letters, digits, _, - and inner dots are allowed", o.Prefix)
		}
	}
	if o.MaxBatch < 1 || o.Timeout < 0 || o.Replicas < 1 {
		return fmt.Errorf("stream: options MaxBatch, Timeout and Replicas must not be negative")
	}
	return nil
}

// Log is the event log of one namespace. It is safe for concurrent use, and holds
// no goroutine and nothing on the server.
type Log struct {
	opts Options
	nc   *nats.Conn
	js   jetstream.JetStream
	// owned means that Close ends the connection too.
	owned bool
	// space is the encoded namespace.
	space string
	// limit is the most bytes of events in one message.
	limit int
	// id and count make batch ids.
	id    string
	count atomic.Uint64
}

// Open uses a connection that the caller owns. It makes the stream if it is
// missing, and adds what this package needs to an existing one. It fails with
// [*UnreachableError] when there is no usable JetStream.
func Open(ctx context.Context, nc *nats.Conn, o Options) (*Log, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("stream: open %s: %w", o.Name, err)
	}
	l := &Log{opts: o, nc: nc, js: js, space: token(o.Namespace), id: rand.Text()[:10]}
	if err := l.setup(ctx); err != nil {
		return nil, err
	}
	l.limit = max(1, min(o.MaxBatch, int(nc.MaxPayload())-headerRoom))
	return l, nil
}

// Dial connects to the servers at url (commas between several) and opens the log;
// [Log.Close] ends the connection. A lost connection is made again, without a
// time limit.
func Dial(ctx context.Context, url string, o Options) (*Log, error) {
	nc, err := Connect(url, o.Access, nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(100*time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.ErrorHandler(o.logFault))
	if err != nil {
		return nil, err
	}
	l, err := Open(ctx, nc, o)
	if err != nil {
		nc.Close()
		return nil, err
	}
	l.owned = true
	return l, nil
}

func (o Options) logFault(_ *nats.Conn, _ *nats.Subscription, err error) {
	if o.Logger != nil {
		o.Logger.Warn("stream connection", "error", err)
	}
}

// Close ends the connection that [Dial] made, and with it all reading and
// writing; after [Open] it does nothing. It may be called more than once.
func (l *Log) Close() {
	if l.owned {
		l.nc.Close()
	}
}

// Purge removes all events of a session. Writers must be fenced and readers
// informed before: a reader that follows simply receives nothing more.
func (l *Log) Purge(ctx context.Context, sessionID string) error {
	if err := checkID(sessionID); err != nil {
		return err
	}
	err := l.patiently(ctx, func(ctx context.Context) error {
		s, err := l.js.Stream(ctx, l.opts.Name)
		if err != nil {
			return err
		}
		return s.Purge(ctx, jetstream.WithPurgeSubject(l.subject(sessionID)))
	})
	if err != nil {
		return fmt.Errorf("stream: session %s: purge: %w", sessionID, err)
	}
	return nil
}

const idChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

func checkID(id string) error {
	if id == "" || len(id) > 64 || strings.Trim(id, idChars) != "" {
		return fmt.Errorf("stream: session id %q: 1 to 64 letters, digits, _ and - are allowed", id)
	}
	return nil
}

// token encodes any text as one token of a subject; = is the escape character,
// and = alone represents the empty text.
func token(s string) string {
	if s == "" {
		return "="
	}
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(idChars, s[i]) >= 0 {
			b.WriteByte(s[i])
			continue
		}
		fmt.Fprintf(&b, "=%02X", s[i])
	}
	return b.String()
}

func (l *Log) subject(sessionID string) string {
	return l.opts.Prefix + "." + l.space + "." + sessionID
}

// liveSubject returns the subject to which the server republishes stored
// messages.
func (l *Log) liveSubject(sessionID string) string {
	return l.opts.Prefix + "-live." + l.space + "." + sessionID
}

func (l *Log) batchID() string {
	return l.id + strconv.FormatUint(l.count.Add(1), 36)
}
