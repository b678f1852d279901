package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/test/modelsim"
)

// The test binary is the program itself when asked to be.
func TestMain(m *testing.M) {
	if os.Getenv("MODELSIM_TEST_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func program(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "MODELSIM_TEST_MAIN=1")
	return cmd
}

func TestProgramServesUntilSIGTERM(t *testing.T) {
	t.Parallel()
	env := filepath.Join(t.TempDir(), "env")
	cmd := program("--env-file", env, "--json", "--record", filepath.Join(t.TempDir(), "new"))
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })

	said, err := bufio.NewReader(stdout).ReadBytes('\n')
	require.NoError(t, err)
	var got map[string]string
	require.NoError(t, json.Unmarshal(said, &got))
	url := got["ANTHROPIC_BASE_URL"]
	for _, variable := range modelsim.Environment(url) {
		name, value, _ := strings.Cut(variable, "=")
		require.Equal(t, value, got[name])
		read := exec.Command("/bin/sh", "-c", `. "$1" && printf %s "$`+name+`"`, "sh", env)
		said, err := read.Output()
		require.NoError(t, err)
		require.Equal(t, value, string(said), "a shell that reads the file gets the same")
	}

	messages := `{"model":"m","messages":[{"role":"user","content":"SAY x"}]}`
	for path, body := range map[string]string{
		url + "/v1/messages":                                               messages,
		got["OPENAI_BASE_URL"] + "/chat/completions":                       messages,
		got["OPENAI_BASE_URL"] + "/responses":                              `{"model":"m","input":"SAY x"}`,
		got["GOOGLE_GEMINI_BASE_URL"] + "/v1beta/models/m:generateContent": `{"contents":[{"parts":[{"text":"SAY x"}]}]}`,
	} {
		res, err := http.Post(path, "application/json", strings.NewReader(body))
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, http.StatusOK, res.StatusCode, path)
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}

func TestPrintsAssignments(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	require.NoError(t, run(ctx, nil, &out))
	require.Regexp(t, `^ANTHROPIC_BASE_URL=http://127\.0\.0\.1:\d+\nANTHROPIC_API_KEY=sk-modelsim\nOPENAI_BASE_URL=http://`, out.String())
}

func TestHelpNamesEveryProtocol(t *testing.T) {
	t.Parallel()
	out, err := program("--help").Output()
	require.NoError(t, err)
	for _, path := range []string{"/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1beta/models/M:", "-record"} {
		require.Contains(t, string(out), path)
	}
}

func TestShellWord(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"": "''", "http://127.0.0.1:1/v1": "http://127.0.0.1:1/v1", `{"a":1}`: `'{"a":1}'`, "it's $x": `'it'\''s $x'`, "é": "'é'",
	} {
		require.Equal(t, want, shellWord(value))
	}
}

func TestWrongUse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--nope"}, 2, "sojourn-modelsim: flag provided but not defined: -nope\nhint: sojourn-modelsim --help\n"},
		{[]string{"extra"}, 2, "sojourn-modelsim: unexpected argument \"extra\"\nhint: sojourn-modelsim --help\n"},
		{[]string{"--addr", "nowhere"}, 1, "listen on nowhere"},
		{[]string{"--env-file", "/nonexistent/f"}, 1, "write the env file"},
		{[]string{"--help"}, 0, ""},
	} {
		cmd := program(tc.args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		_ = cmd.Run() // the exit code says it all
		require.Equal(t, tc.code, cmd.ProcessState.ExitCode(), "%v: %s", tc.args, stderr.String())
		require.Contains(t, stderr.String(), tc.says)
	}
}
