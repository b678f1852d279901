package archive

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// payloadOf returns a key as Temporal's S3 driver makes it.
func payloadOf(session, digest string) string {
	return "v0/ns/default/wt/null/wi/" + session + "/ri/null/d/sha256/" + digest
}

// A payload is stored for its session, whatever run and type it was stored for,
// and is deleted with it.
func TestPayloadsGoWithTheirSession(t *testing.T) {
	t.Parallel()
	a, digest := open(t), strings.Repeat("0a", 32)
	p, key := a.Payloads(), payloadOf("s1", digest)
	_, err := p.GetObject(t.Context(), "", key)
	require.ErrorIs(t, err, ErrNotFound)
	require.NoError(t, p.PutObject(t.Context(), "", key, []byte("large")))
	require.NoError(t, p.PutObject(t.Context(), "", key, []byte("large")))
	got, err := p.GetObject(t.Context(), "another bucket", strings.ReplaceAll(key, "null", "else"))
	require.NoError(t, err)
	require.Equal(t, "large", string(got))
	left, err := a.Leftovers(t.Context(), "s1")
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.NoError(t, a.DeleteSession(t.Context(), "s1"))
	_, err = p.GetObject(t.Context(), "", key)
	require.ErrorIs(t, err, ErrNotFound)
}

// Keys are read from history, where anyone can put one.
func TestPayloadKeysLeadNowhereElse(t *testing.T) {
	t.Parallel()
	a, digest := open(t), strings.Repeat("0a", 32)
	for _, key := range []string{
		"", "v0", digest, payloadOf("..", digest), payloadOf("", digest), payloadOf("a/b", digest), payloadOf("s1", "../head.json"),
		payloadOf("s1", strings.Repeat("0A", 32)), payloadOf("s1", digest) + "/", strings.Replace(payloadOf("s1", digest), "/wi/", "/ai/", 1),
	} {
		_, err := a.Payloads().GetObject(t.Context(), "", key)
		require.ErrorIs(t, err, ErrInvalid, key)
		require.ErrorIs(t, a.Payloads().PutObject(t.Context(), "", key, nil), ErrInvalid, key)
	}
}
