package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// TestLargeMessageStaysOutOfHistory sends a message of 900 KB with the Go client. The
// agent gets all of it, history has none of it, and the stored payload is deleted with
// the session.
func TestLargeMessageStaysOutOfHistory(t *testing.T) {
	onSharedHost(t)
	h := open(t, session.Options{Agent: "claude"})
	ctx := testContext(t)
	text := strings.Repeat("x", 900_000)
	r, err := h.Send(ctx, session.Message{Text: text, Parts: []event.Part{{Type: "text", Text: "SAY all of it"}}})
	require.NoError(t, err)
	require.Equal(t, "all of it", answeredWell(ctx, t, h, r).Result.Response)

	size := 0
	it := spaceOf(t).Temporal.GetWorkflowHistory(ctx, h.ID(), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		ev, err := it.Next()
		require.NoError(t, err)
		size += proto.Size(ev)
	}
	t.Logf("history: %d bytes", size)
	require.Less(t, size, session.InlinePayloadBytes)

	require.NoError(t, h.Close(ctx))
	require.Contains(t, strings.Join(leftovers(t, h.ID()), "\n"), "/payloads/")
	require.NoError(t, spaceOf(t).Archive.DeleteSession(ctx, h.ID()))
	require.Empty(t, leftovers(t, h.ID()))
}

func leftovers(t *testing.T, id string) []string {
	t.Helper()
	keys, err := spaceOf(t).Archive.Leftovers(testContext(t), id)
	require.NoError(t, err)
	return keys
}

// TestReferenceToNoPayload sends a reference to a stored payload that doesn't exist. It
// is refused like any other signal that is no message.
func TestReferenceToNoPayload(t *testing.T) {
	inOwnNamespace(t)
	startWorker(t)
	h, raw := open(t, session.Options{}), bare(t)
	ctx := testContext(t)
	require.NoError(t, say(t, h, "SAY before").Err())
	key := "v0/ns/default/wt/null/wi/" + h.ID() + "/ri/null/d/sha256/" + strings.Repeat("0", 64)
	bad := []string{"not JSON", `{"driverName":"elsewhere"}`, `{"driverName":"sojourn"}`}
	for _, key := range []string{key, "../../" + key, ""} {
		bad = append(bad, `{"driverName":"sojourn","claimData":{"bucket":"elsewhere","key":"`+key+`","hash_algorithm":"sha256","hash_value":"00"}}`)
	}
	for _, data := range bad {
		reference := payload(converter.MetadataEncodingProtoJSON, data)
		reference.Payload().Metadata[converter.MetadataMessageType] = []byte("temporal.api.sdk.v1.ExternalStorageReference")
		require.NoError(t, raw.SignalWorkflow(ctx, h.ID(), "", session.SignalMessage, reference), data)
	}
	require.NoError(t, raw.SignalWorkflow(ctx, h.ID(), "", session.SignalMessage, payload("json/external-storage-reference", "{}")))
	errs, _ := refusalsIn(heardUntil(t, h, 0, nth[event.Error](len(bad)+1)))
	for i, e := range errs {
		require.Contains(t, e.Message, "can't be read", "signal %d", i)
	}
	require.NoError(t, say(t, h, "SAY after").Err())
	require.NoError(t, h.Close(ctx))
}
