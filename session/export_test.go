package session

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/test/teststack"
	"github.com/sojourn-run/sojourn/workspace"
)

// TestExportOfADamagedArchive: an export has everything that can be read, and names the rest.
func TestExportOfADamagedArchive(t *testing.T) {
	t.Parallel()
	bucket, namespace := "sojourn-session-test", strings.ToLower(rand.Text())
	store := teststack.Client(servers.S3(t), http.DefaultTransport)
	a, err := archive.Open(t.Context(), archive.Options{Bucket: bucket, Namespace: namespace, Client: store})
	require.NoError(t, err)
	require.NoError(t, a.Setup(t.Context()))
	_, err = a.CreateSession(t.Context(), archive.ListData{ID: "s1", Agent: "claude", Title: "T"})
	require.NoError(t, err)
	epoch, err := a.TakeEpoch(t.Context(), "s1")
	require.NoError(t, err)
	for name, content := range map[string]string{"bad.txt": "spoilt words", "good.txt": "whole words"} {
		_, err = workspace.SaveFile(t.Context(), a, "s1", epoch, name, 0o644, []byte(content))
		require.NoError(t, err)
	}
	for id, raw := range map[string]string{"": "the main one\n", "sub": "the spoilt one\n"} {
		_, err = a.SaveTranscript(t.Context(), "s1", epoch, []byte(raw), id, id+"main.jsonl")
		require.NoError(t, err)
	}
	spoilt := 0
	objects, err := store.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &bucket})
	require.NoError(t, err)
	for _, o := range objects.Contents {
		if !strings.Contains(*o.Key, namespace) {
			continue
		}
		got, err := store.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket, Key: o.Key})
		require.NoError(t, err)
		data, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		if changed := bytes.Replace(data, []byte("spoilt"), []byte("SPOILT"), 1); !bytes.Equal(data, changed) {
			spoilt++
			_, err = store.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: o.Key, Body: bytes.NewReader(changed), ContentLength: aws.Int64(int64(len(changed)))})
			require.NoError(t, err)
		}
	}
	require.Equal(t, 2, spoilt)

	c, err := NewClient(ClientOptions{Temporal: knowing(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED), Agents: builtin.Registry(), Archive: a})
	require.NoError(t, err)
	var out bytes.Buffer
	err = c.Export(t.Context(), "s1", &out)
	var damaged *DamagedError
	require.ErrorAs(t, err, &damaged)
	require.ErrorContains(t, err, "damaged in the archive: home/submain.jsonl: ")

	written := map[string]string{}
	in := tar.NewReader(&out)
	for h, err := in.Next(); err != io.EOF; h, err = in.Next() {
		require.NoError(t, err)
		data, err := io.ReadAll(in)
		require.NoError(t, err)
		written[h.Name] = string(data)
	}
	require.Equal(t, "whole words", written["workspace/good.txt"])
	require.Equal(t, strings.Repeat("\x00", len("spoilt words")), written["workspace/bad.txt"])
	require.Equal(t, "the main one\n", written["home/main.jsonl"])
	require.Equal(t, strings.Repeat("\x00", len("the spoilt one\n")), written["home/submain.jsonl"])
	var named []DamagedEntry
	require.NoError(t, json.Unmarshal([]byte(written["damage.json"]), &named))
	require.Equal(t, damaged.Entries, named)
	require.Equal(t, []string{"home/submain.jsonl", "workspace/bad.txt"}, []string{named[0].Path, named[1].Path})
}
