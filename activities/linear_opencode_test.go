package activities

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/opencode"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/test/teststack"
	"github.com/sojourn-run/sojourn/test/turns"
)

// countedSandbox counts what is read of a sandbox: files and the output of commands.
type countedSandbox struct {
	sandbox.Sandbox
	read atomic.Int64
}

func (c *countedSandbox) CopyOut(ctx context.Context, sel sandbox.Selection) iter.Seq2[sandbox.File, error] {
	return func(yield func(sandbox.File, error) bool) {
		for f, err := range c.Sandbox.CopyOut(ctx, sel) {
			if f.Body != nil {
				f.Body = &counted{f.Body, &c.read}
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

func (c *countedSandbox) Exec(ctx context.Context, cmd sandbox.Command) (sandbox.Process, error) {
	p, err := c.Sandbox.Exec(ctx, cmd)
	return countedProcess{p, &c.read}, err
}

type countedProcess struct {
	sandbox.Process
	n *atomic.Int64
}

func (c countedProcess) Stdout() io.ReadCloser {
	out := c.Process.Stdout()
	return struct {
		io.Reader
		io.Closer
	}{&counted{out, c.n}, out}
}

// The agent's database is queried in place: a turn costs what it changed.
func TestTurnsAreLinearForOpenCode(t *testing.T) {
	t.Parallel()
	b := withSandbox(t)
	sb, err := b.provider.Open(t.Context(), b.sandbox.ID)
	require.NoError(t, err)
	info, err := sb.Info(t.Context())
	require.NoError(t, err)
	store := &teststack.Wire{}
	counted := &countedSandbox{Sandbox: sb}
	a := &host.Agent{Adapter: opencode.New(), Sandbox: counted, Paths: info.Paths, Env: info.Env}
	a.Launch.SessionID = "s1"
	kept, err := archive.Open(t.Context(), archive.Options{
		Bucket: "sojourn-activities-test", Prefix: "linear", Namespace: strings.ToLower(rand.Text()), Client: teststack.Client(serversOf(t), store),
	})
	require.NoError(t, err)
	r := newArchiver(kept, a, 0, quiet())
	a.Epoch, err = r.store.TakeEpoch(t.Context(), "s1")
	require.NoError(t, err)

	db, err := turns.NewDatabase(t.Context(), info.Paths.Home)
	require.NoError(t, err)
	defer db.Close()

	var since json.RawMessage
	at := 0
	// cost returns the costs of the last turns up to one; the earlier ones are written at
	// once.
	cost := func(last int) (c costs) {
		for ; at < last-countedTurns; at++ {
			require.NoError(t, db.Turn(t.Context(), at+1))
		}
		_, err := hasWritten(t.Context(), a, &since, "none")
		require.NoError(t, err)
		_, err = r.sync(t.Context())
		require.NoError(t, err)
		store.Asked()
		before := counted.read.Load()
		for ; at < last; at++ {
			require.NoError(t, db.Turn(t.Context(), at+1))
			found, err := hasWritten(t.Context(), a, &since, db.Answer(at+1))
			require.NoError(t, err)
			require.True(t, found, "turn %d", at+1)
			grown, err := r.sync(t.Context())
			require.NoError(t, err)
			require.Len(t, grown, 1)
		}
		c.requests, c.sent = store.Asked()
		c.read = counted.read.Load() - before
		return c
	}
	atMost15PercentMore(t, cost(32), cost(400))

	// What was archived piece by piece equals the database.
	var whole []byte
	_, err = opencode.New().Export(host.NewHome(t.Context(), sb), adapters.Transcript{ID: event.Main, Path: turns.DatabasePath, Kind: adapters.Snapshot}, nil,
		func(piece []byte) error {
			whole = append(whole, piece...)
			return nil
		})
	require.NoError(t, err)
	lines, err := r.store.ReadTranscript(t.Context(), "s1", "main")
	require.NoError(t, err)
	archived, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.NoError(t, lines.Close())
	require.Equal(t, strings.Count(string(whole), `"table":"part","rowid"`), strings.Count(string(archived), `"table":"part","rowid"`))
}
