package adapters_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/adapters/gemini"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// A process died between its first answer and the next step of its opening, with
// no worker running. The next worker reads that answer when another process runs
// already, which must not get that step: two requests to load one session make
// Gemini CLI write its history into the answer to a prompt.
func TestWhatWasDueToADeadProcessIsNotWritten(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	tr, err := gemini.New().Translator(adapters.Launch{Resume: true, NativeID: "old", Workspace: "/w"}, nil)
	require.NoError(t, err)
	var written []string
	d := adapters.NewDialogue(tr, func(_ context.Context, m adapters.Message) error {
		written = append(written, m.ID)
		return nil
	})
	step := func(dir event.Dir, line string) {
		_, err := d.Step(ctx, traffic.Record{Dir: dir, Line: line})
		require.NoError(t, err)
	}
	d.Hold()
	require.NoError(t, d.Say(ctx, "prompt", adapters.Prompt{Text: "hi"}))
	step(event.DirSig, "start")
	step(event.DirIn, `{"jsonrpc":"2.0","id":"initialize-0","method":"initialize"}`)
	step(event.DirOut, `{"jsonrpc":"2.0","id":"initialize-0","result":{"agentCapabilities":{"loadSession":true}}}`)
	step(event.DirSig, "signal killed (with its runner)")
	step(event.DirSig, "start")
	step(event.DirIn, `{"jsonrpc":"2.0","id":"initialize-1","method":"initialize"}`)
	require.NoError(t, d.Say(ctx, "answer", adapters.Answer{RequestID: "initialize-0/1", Allow: true}))
	require.NoError(t, d.Release(ctx))
	require.Empty(t, written)
	step(event.DirOut, `{"jsonrpc":"2.0","id":"initialize-1","result":{"agentCapabilities":{"loadSession":true}}}`)
	require.Equal(t, []string{"initialize-1/session"}, written)
}

// opening is a translator that can take no prompt yet, and never another permission.
type opening struct{ adapters.Translator }

func (opening) Encode(_ string, in adapters.Input) ([]adapters.Message, error) {
	if _, ok := in.(adapters.SetPermission); ok {
		return nil, fmt.Errorf("permission: %w", adapters.ErrUnsupported)
	}
	return nil, adapters.ErrNotYet
}

// An input that the agent can't take is refused also behind others that wait: refused
// when its turn comes, it would end the turn.
func TestUnsupportedBehindOthers(t *testing.T) {
	t.Parallel()
	d := adapters.NewDialogue(opening{}, nil)
	require.NoError(t, d.Say(t.Context(), "prompt", adapters.Prompt{Text: "hi"}))
	require.ErrorIs(t, d.Say(t.Context(), "permission", adapters.SetPermission{Permission: adapters.PermissionAsk}), adapters.ErrUnsupported)
}
