package archive

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive/store"
	"github.com/sojourn-run/sojourn/test/teststack"
)

// environment sets a test's variables for the gateway.
func environment(t *testing.T, endpoint string) {
	t.Setenv("AWS_ENDPOINT_URL_S3", endpoint)
	t.Setenv("AWS_ACCESS_KEY_ID", servers.S3(t)["AWS_ACCESS_KEY_ID"])
	t.Setenv("AWS_SECRET_ACCESS_KEY", servers.S3(t)["AWS_SECRET_ACCESS_KEY"])
	t.Setenv("AWS_CONFIG_FILE", "/nonexistent")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
}

func TestSetupByEnvironment(t *testing.T) {
	client := teststack.Client(servers.S3(t), nil)
	environment(t, servers.S3(t)["AWS_ENDPOINT_URL_S3"])
	bucket := "new-" + strings.ToLower(rand.Text())
	a, err := Open(t.Context(), Options{Bucket: bucket})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = a.DeleteSession(context.Background(), "s1")
		_, err := client.DeleteBucket(context.Background(), &s3.DeleteBucketInput{Bucket: aws.String(bucket)})
		require.NoError(t, err)
	})
	require.NoError(t, a.Setup(t.Context()))
	require.NoError(t, a.Setup(t.Context()), "again")
	require.EqualValues(t, 1, take(t, a, "s1"))
	_, err = client.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &bucket, Key: aws.String("default/sessions/s1/head.json")})
	require.NoError(t, err)
}

func TestStoreNotReachable(t *testing.T) {
	_ = servers.S3(t)
	endpoint := "http://" + teststack.ClosedAddress(t)
	environment(t, endpoint)
	a, err := Open(t.Context(), Options{})
	require.NoError(t, err)
	err = a.Setup(t.Context())
	var c *store.ConnectError
	require.ErrorAs(t, err, &c)
	require.Contains(t, c.Where, endpoint)
	require.Contains(t, c.Hint, "AWS_ENDPOINT_URL_S3")
	require.Contains(t, err.Error(), endpoint)
	require.NotContains(t, err.Error(), "\n", "one line")
}

func TestWrongKey(t *testing.T) {
	_ = servers.S3(t)
	environment(t, servers.S3(t)["AWS_ENDPOINT_URL_S3"])
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	a, err := Open(t.Context(), Options{})
	require.NoError(t, err)
	var c *store.ConnectError
	require.ErrorAs(t, a.Setup(t.Context()), &c)
	require.Contains(t, c.Hint, "AWS_SECRET_ACCESS_KEY")
}

func TestOpenRefusesNamespace(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), Options{Namespace: "a/b"})
	require.ErrorIs(t, err, ErrInvalid)
	for _, prefix := range []string{".hidden", "a//b", "../x"} {
		_, err = Open(t.Context(), Options{Folder: t.TempDir(), Prefix: prefix})
		require.ErrorContains(t, err, "want a relative path", prefix)
	}
}

func TestMarkerOrder(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 6, 7, 8, 9, 123e6, time.UTC)
	require.Less(t, markerName(at.Add(time.Millisecond), "z"), markerName(at, "a"))
	got, id, err := parseMarker(markerName(at, "a-b"))
	require.NoError(t, err)
	require.Equal(t, at, got)
	require.Equal(t, "a-b", id)
}

func TestCheckPath(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "a/b.jsonl", ".claude/projects/x", "ü"} {
		require.NoError(t, CheckPath(good), good)
	}
	for _, bad := range []string{"", ".", "..", "/a", "a/../b", "a//b", "a/", "./a", `a\b`, "c:x", "a\x00", "\xff", strings.Repeat("x", 1025)} {
		require.ErrorIs(t, CheckPath(bad), ErrInvalid, bad)
	}
}

func FuzzSegmentName(f *testing.F) {
	f.Add(segment{epoch: 3, start: 0, end: 12}.String())
	f.Add(segment{epoch: 1, start: 5, end: 9, rev: 2}.String())
	f.Add("1-2-3")
	f.Fuzz(func(t *testing.T, name string) {
		var s segment
		if s.UnmarshalText([]byte(name)) == nil {
			require.Equal(t, name, s.String())
			require.Positive(t, s.size())
		}
	})
}

// unescape undoes escape; it refuses what escape never writes.
func unescape(s string) (string, error) {
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '=' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", fmt.Errorf("%w name %q", ErrInvalid, s)
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("%w name %q", ErrInvalid, s)
		}
		b, i = append(b, byte(c)), i+2
	}
	if escape(string(b)) != s {
		return "", fmt.Errorf("%w name %q", ErrInvalid, s)
	}
	return string(b), nil
}

func FuzzEscape(f *testing.F) {
	f.Add("a/b..=41")
	f.Fuzz(func(t *testing.T, s string) {
		e := escape(s)
		require.Regexp(t, `^([A-Za-z0-9_=-][A-Za-z0-9._=-]*)?$`, e)
		back, err := unescape(e)
		require.NoError(t, err)
		require.Equal(t, s, back)
		if plain, err := unescape(s); err == nil {
			require.Equal(t, s, escape(plain))
		}
	})
}

func FuzzHead(f *testing.F) {
	h := transcriptHead{Transcript: mainFile, Epoch: 2, Segments: []segment{{epoch: 1, end: 5}}}
	if err := h.extend([]byte("12345")); err != nil {
		f.Fatal(err)
	}
	data, err := json.Marshal(h)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"id":"db","path":"db","kind":"snapshot","size":-1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var h transcriptHead
		if json.Unmarshal(data, &h) != nil {
			return
		}
		require.GreaterOrEqual(t, h.Size, int64(0))
		again, err := json.Marshal(h)
		require.NoError(t, err)
		var back transcriptHead
		require.NoError(t, json.Unmarshal(again, &back), "%s", again)
		if h.Kind == adapters.Append {
			require.NoError(t, h.extend([]byte("x")))
		}
	})
}

func FuzzServer(f *testing.F) {
	f.Add([]byte("{\"id\":\"a\"}\n{}\nnull\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = decodeServer(strings.NewReader(string(data)))
	})
}
