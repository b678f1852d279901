package starter

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

func runAsProgram() {
	os.Exit(Run(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sojourn": runAsProgram})
}

// TestScripts runs the manual. Its commands have an environment in which every
// server is a closed port of this machine.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exec-code": execCode, "make-file": makeFile, "make-bytes": makeBytes, "append": appendFile,
		},
		Setup: func(e *testscript.Env) error {
			for name, value := range map[string]string{
				// Nothing listens on port 1, and only root could.
				"TEMPORAL_ADDRESS":            "127.0.0.1:1",
				"NATS_URL":                    "nats://127.0.0.1:1",
				"AWS_ENDPOINT_URL_S3":         "http://127.0.0.1:1",
				"AWS_ACCESS_KEY_ID":           "test",
				"AWS_SECRET_ACCESS_KEY":       "test",
				"AWS_REGION":                  "us-east-1",
				"AWS_EC2_METADATA_DISABLED":   "true",
				"AWS_CONFIG_FILE":             filepath.Join(e.WorkDir, "no-aws-config"),
				"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(e.WorkDir, "no-aws-credentials"),
				"TEMPORAL_CONFIG_FILE":        "",
				"XDG_CONFIG_HOME":             e.WorkDir,
			} {
				e.Setenv(name, value)
			}
			return nil
		},
	})
}

// execCode is "exec-code N COMMAND…": the command must end with that exit code.
func execCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exec-code N COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("%v ended with %d, want %s", args[1:], code, args[0])
	}
}

// makeFile is "make-file NAME BYTES".
func makeFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: make-file NAME BYTES")
	}
	size, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), bytes.Repeat([]byte("x"), size), 0o600))
}

// makeBytes is "make-bytes NAME TEXT", where the text has Go's escapes.
func makeBytes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: make-bytes NAME TEXT")
	}
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(args[1], `"`, `\"`) + `"`)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// appendFile is "append TO FROM".
func appendFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: append TO FROM")
	}
	both := ts.ReadFile(args[0]) + ts.ReadFile(args[1])
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(both), 0o600))
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
}

// A line may be of any length, and a stream too: what is read is folded and
// discarded.
func TestReduceTakesLongLines(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 8<<20)
	in := `{"type":"block:upsert","payload":{"block":{"id":"a","type":"assistant_text","content":"` + text + `"}}}`
	var out, errs bytes.Buffer
	code := Run(t.Context(), []string{"reduce"}, func(string) string { return "" }, strings.NewReader(in), &out, &errs)
	require.Equal(t, 0, code, errs.String())
	require.Contains(t, out.String(), text)
}
