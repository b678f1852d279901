package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseDefaults(t *testing.T) {
	t.Parallel()
	o, err := Parse([]string{"--data-dir", "/d"})
	require.NoError(t, err)
	require.Equal(t, Options{
		DataDir: "/d", EnvFile: "/d/devstack.env", IP: "127.0.0.1",
		Temporal:       Port{Flag: "temporal-port", Number: 7233},
		UI:             Port{Flag: "ui-port", Number: 8233},
		NATS:           Port{Flag: "nats-port", Number: 4222},
		S3:             Port{Flag: "s3-port", Number: 7070},
		LogLevel:       slog.LevelWarn,
		TemporalConfig: map[string]any{},
	}, o)
}

func TestParseEveryFlag(t *testing.T) {
	t.Parallel()
	o, err := Parse([]string{
		"--data-dir=/d", "--env-file", "/e/f", "--ip", "::1", "--temporal-port", "7233", "--ui-port=0",
		"--nats-port", "1", "--s3-port", "65535", "--log-level", "debug", "--json", "--nats-sync-always",
		"--temporal-config", "a.b=5", "--temporal-config", "c=true", "--temporal-config", "d=x=y", "--temporal-config", "e=0.5",
	})
	require.NoError(t, err)
	require.Equal(t, Options{
		DataDir: "/d", EnvFile: "/e/f", IP: "::1",
		Temporal: Port{Flag: "temporal-port", Number: 7233, Explicit: true},
		UI:       Port{Flag: "ui-port", Explicit: true},
		NATS:     Port{Flag: "nats-port", Number: 1, Explicit: true},
		S3:       Port{Flag: "s3-port", Number: 65535, Explicit: true},
		LogLevel: slog.LevelDebug, JSON: true, NATSSyncAlways: true,
		TemporalConfig: map[string]any{"a.b": 5, "c": true, "d": "x=y", "e": 0.5},
	}, o)
}

// The S3 gateway changes the working directory, so no path may depend on it.
func TestParseMakesPathsAbsolute(t *testing.T) {
	t.Parallel()
	o, err := Parse([]string{"--data-dir", "d", "--env-file", "e"})
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(o.DataDir), o.DataDir)
	require.True(t, filepath.IsAbs(o.EnvFile), o.EnvFile)
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--data-dir is missing":                  {},
		"flag provided but not defined: -nope":   {"--data-dir", "d", "--nope"},
		`unexpected argument "extra"`:            {"--data-dir", "d", "extra"},
		`--ip "home" is not an IP address`:       {"--data-dir", "d", "--ip", "home"},
		"--ui-port 65536 is out of range":        {"--data-dir", "d", "--ui-port", "65536"},
		"--s3-port -1 is out of range":           {"--data-dir", "d", "--s3-port", "-1"},
		`invalid value "loud" for flag`:          {"--data-dir", "d", "--log-level", "loud"},
		`invalid value "k" for flag`:             {"--data-dir", "d", "--temporal-config", "k"},
		`invalid value "seven" for flag -ui-por`: {"--data-dir", "d", "--ui-port", "seven"},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(args)
			require.ErrorContains(t, err, want)
			var b bytes.Buffer
			require.Equal(t, ExitUsage, PrintError(&b, err))
			require.Regexp(t, `\Asojourn-devstack: .+\nsojourn-devstack: hint: .+\n\z`, b.String())
		})
	}
}

// Every flag that is parsed is in the help, which is written by hand.
func TestUsageNamesEveryFlag(t *testing.T) {
	t.Parallel()
	_, err := Parse([]string{"--help"})
	require.ErrorIs(t, err, flag.ErrHelp)
	var b bytes.Buffer
	PrintUsage(&b)
	o := defaults()
	o.flagSet().VisitAll(func(f *flag.Flag) {
		require.Contains(t, b.String(), "  --"+f.Name+" ")
	})
}

func TestPrintErrorOfAnyError(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	err := fmt.Errorf("start: %w", errors.Join(errors.New("one"), errors.New("two")))
	require.Equal(t, ExitFailed, PrintError(&b, err))
	require.Equal(t, "sojourn-devstack: start: one; two\n", b.String())
}

func TestClaimHoldsThePort(t *testing.T) {
	t.Parallel()
	c, err := Port{Flag: "x-port", Explicit: true}.Claim("127.0.0.1")
	require.NoError(t, err)
	_, err = listen("127.0.0.1", c.Number)
	require.Error(t, err, "the port is not held")
	require.Equal(t, c.Number, c.Release())
	require.Equal(t, c.Number, c.Release())
	var b bytes.Buffer
	c.Notice(&b)
	require.Empty(t, b.String(), "any free port was asked for, so there is nothing to tell")
}

func TestTakenDefaultGivesWay(t *testing.T) {
	t.Parallel()
	taken := takePort(t)
	c, err := Port{Flag: "x-port", Number: taken}.Claim("127.0.0.1")
	require.NoError(t, err)
	defer c.Release()
	require.NotEqual(t, taken, c.Number)
	var b bytes.Buffer
	c.Notice(&b)
	require.Equal(t, fmt.Sprintf("sojourn-devstack: port %d is taken, using %d (--x-port)\n", taken, c.Number), b.String())
}

func TestTakenExplicitPortIsRefused(t *testing.T) {
	t.Parallel()
	taken := takePort(t)
	_, err := Port{Flag: "x-port", Number: taken, Explicit: true}.Claim("127.0.0.1")
	var b bytes.Buffer
	require.Equal(t, ExitFailed, PrintError(&b, err))
	require.Contains(t, b.String(), fmt.Sprintf("port %d (--x-port) is taken on 127.0.0.1\n", taken))
	require.Contains(t, b.String(), "hint: end what listens there")
}

func TestForeignAddressIsRefused(t *testing.T) {
	t.Parallel()
	_, err := Port{Flag: "x-port"}.Claim("192.0.2.1") // Reserved for documentation.
	require.ErrorContains(t, err, "--ip 192.0.2.1 is not an address of this machine")
}

func takePort(t *testing.T) int {
	l, err := listen("127.0.0.1", 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

func TestReachable(t *testing.T) {
	t.Parallel()
	for ip, want := range map[string]string{
		"127.0.0.1": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1", "10.0.0.7": "10.0.0.7",
	} {
		require.Equal(t, want, Reachable(ip), ip)
	}
}

func TestDataDirIsHeldOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new")
	d, err := OpenDataDir(path)
	require.NoError(t, err)

	_, err = OpenDataDir(path)
	var b bytes.Buffer
	require.Equal(t, ExitFailed, PrintError(&b, err))
	require.Contains(t, b.String(), fmt.Sprintf("%s is in use by another devstack (process %d)\n", path, os.Getpid()))
	require.Contains(t, b.String(), "hint: stop that one")

	require.NoError(t, d.Close())
	require.NoError(t, d.Close(), "closing twice")
	again, err := OpenDataDir(path)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

func TestDataDirThatCannotBeMade(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := OpenDataDir(filepath.Join(file, "sub"))
	var b bytes.Buffer
	require.Equal(t, ExitFailed, PrintError(&b, err))
	require.Contains(t, b.String(), "hint: give a folder that can be written")
}

func TestCredentialsAreMadeOnce(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	first, err := d.Credentials()
	require.NoError(t, err)
	require.Regexp(t, `\A[A-Z2-7]{20}\z`, first.AccessKeyID)
	require.Regexp(t, `\A[A-Z2-7]{40}\z`, first.SecretAccessKey)
	require.Regexp(t, `\A[A-Z2-7]{26}\z`, first.NATSToken)
	second, err := d.Credentials()
	require.NoError(t, err)
	require.Equal(t, first, second)
	info, err := os.Stat(d.Path("credentials.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	other, err := openDir(t).Credentials()
	require.NoError(t, err)
	require.NotEqual(t, first, other, "another folder has keys of its own")
}

func TestBrokenCredentialsAreNotReplaced(t *testing.T) {
	t.Parallel()
	d := openDir(t)
	require.NoError(t, os.WriteFile(d.Path("credentials.json"), []byte("{}"), 0o600))
	_, err := d.Credentials()
	require.ErrorContains(t, err, "credentials.json holds no pair of keys")
}

func openDir(t *testing.T) *DataDir {
	d, err := OpenDataDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// A shell must read back exactly what was written, whatever is in it.
func TestEnvFileIsReadByAShell(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "env")
	value := "it's $HOME `id` \"x\" \\ é\nsecond line"
	require.NoError(t, WriteEnvFile(path, []Var{{"A", value}, {"B", ""}}))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	out, err := exec.CommandContext(t.Context(), "sh", "-ec", `. "$0"; printf '%s|%s|' "$A" "$B"`, path).Output()
	require.NoError(t, err)
	require.Equal(t, value+"||", string(out))
}

func TestPrepareEnvFileRemovesAnEarlierOne(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sub", "env")
	require.NoError(t, PrepareEnvFile(path), "the folder is made")
	require.NoError(t, os.WriteFile(path, []byte("OLD=1\n"), 0o600))
	require.NoError(t, PrepareEnvFile(path))
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Empty(t, entries, "nothing may be left, temporary files included")
}

// A script that waits for the file must not find an empty one before it is
// written.
func TestPrepareEnvFilePutsNoneThere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "env")
	done, seen := make(chan struct{}), make(chan bool)
	go func() {
		found := false
		for {
			select {
			case <-done:
				seen <- found
				return
			default:
				_, err := os.Stat(path)
				found = found || err == nil
			}
		}
	}()
	for range 500 {
		require.NoError(t, PrepareEnvFile(path))
	}
	close(done)
	require.False(t, <-seen)
}

func TestPrepareEnvFileThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	err := PrepareEnvFile(t.TempDir()) // A folder has its path.
	var b bytes.Buffer
	require.Equal(t, ExitFailed, PrintError(&b, err))
	require.Contains(t, b.String(), "hint: give a file that can be written: --env-file FILE")
}

var testReport = Report{
	TemporalAddress: "h:1", TemporalNamespace: "ns", UIURL: "http://h:2", NATSURL: "nats://h:3",
	S3Endpoint: "http://h:4", S3Region: "r", Bucket: "b", DataDir: "/d", EnvFile: "/e", PID: 7,
}

func TestReportEnv(t *testing.T) {
	t.Parallel()
	require.Equal(t, []Var{
		{"TEMPORAL_ADDRESS", "h:1"}, {"TEMPORAL_NAMESPACE", "ns"}, {"NATS_URL", "nats://h:3"}, {"NATS_TOKEN", "token"},
		{"AWS_ENDPOINT_URL_S3", "http://h:4"}, {"AWS_ACCESS_KEY_ID", "id"}, {"AWS_SECRET_ACCESS_KEY", "secret"},
		{"AWS_REGION", "r"}, {"SOJOURN_BUCKET", "b"}, {"SOJOURN_UI_URL", "http://h:2"}, {"SOJOURN_DEVSTACK_PID", "7"},
	}, testReport.Env(Credentials{AccessKeyID: "id", SecretAccessKey: "secret", NATSToken: "token"}))
}

func TestReportFormats(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, testReport.WriteJSON(&b))
	require.Equal(t, 1, strings.Count(b.String(), "\n"))
	var back Report
	require.NoError(t, json.Unmarshal(b.Bytes(), &back))
	require.Equal(t, testReport, back)

	b.Reset()
	require.NoError(t, testReport.WriteTable(&b))
	columns := regexp.MustCompile(`(?m)^\S.{10}(\S)`).FindAllStringSubmatch(b.String(), -1)
	require.Len(t, columns, 6, "every second column begins at the same place:\n%s", b.String())
}
