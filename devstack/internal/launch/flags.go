package launch

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// Program is the name of the program, as it signs its messages.
const Program = "sojourn-devstack"

// Options is a parsed command line. Paths are absolute, because the embedded
// S3 gateway changes the process's working directory.
type Options struct {
	// DataDir is the folder with everything.
	DataDir string
	// EnvFile is the settings file written when the stack is ready.
	// Default: devstack.env in DataDir.
	EnvFile string
	// IP is the address that every server binds. Default: 127.0.0.1.
	IP string
	// Temporal, UI, NATS and S3 are the requested ports. Defaults: 7233, 8233, 4222,
	// 7070.
	Temporal, UI, NATS, S3 Port
	// LogLevel is the lowest level that the servers' logs are shown at, on
	// stderr. Default: warn.
	LogLevel slog.Level
	// JSON reports the addresses as one JSON object. Default: a table.
	JSON bool
	// NATSSyncAlways makes JetStream sync every write to disk before it
	// acknowledges it. Default: off, a sync every two minutes, which the death
	// of a process survives and a power loss may not.
	NATSSyncAlways bool
	// TemporalConfig overrides the server's dynamic configuration by key.
	TemporalConfig map[string]any
}

// usageHint is the hint of every error about the command line.
const usageHint = "run " + Program + " --help for the flags"

// usage is printed by hand because package flag shows long flags with one dash.
const usage = `Usage: sojourn-devstack --data-dir DIR [flags]

Runs a Temporal server with its Web UI, NATS with JetStream and an S3 gateway in
one process, for development. Stays up until SIGINT or SIGTERM.

  --data-dir DIR         folder that keeps everything (required; made if missing)
  --env-file FILE        settings as shell assignments, written when all is ready
                         and removed at the end (default DIR/devstack.env)
  --temporal-port N      default 7233
  --ui-port N            default 8233
  --nats-port N          default 4222
  --s3-port N            default 7070
                         A default that is taken gives way to a free port; a port
                         given here does not. 0 is any free port.
  --ip ADDR              address to bind (default 127.0.0.1). Nothing asks for a
                         password but S3: leave it on loopback.
  --log-level LEVEL      debug, info, warn or error (default warn), on stderr
  --json                 report the addresses as one JSON object
  --nats-sync-always     JetStream syncs every write to disk
  --temporal-config K=V  override a dynamic configuration key of the Temporal
                         server; V is JSON or a plain string; may be repeated
  --help                 this text

Exit codes: 0 ended by a signal, 1 failed, 2 wrong usage.
`

// PrintUsage writes the help text to w.
func PrintUsage(w io.Writer) { fmt.Fprint(w, usage) }

// Parse reads a command line without the program's name. It returns
// [flag.ErrHelp] if help was requested, and an [*Error] with [ExitUsage] for an
// invalid command line.
func Parse(args []string) (Options, error) {
	o := defaults()
	set := o.flagSet()
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return Options{}, err
		}
		return Options{}, misused(usageHint, "%w", err)
	}
	if set.NArg() > 0 {
		return Options{}, misused(usageHint, "unexpected argument %q", set.Arg(0))
	}
	set.Visit(o.markExplicit)
	return o, o.finish()
}

func defaults() Options {
	return Options{
		Temporal:       Port{Flag: "temporal-port", Number: 7233},
		UI:             Port{Flag: "ui-port", Number: 8233},
		NATS:           Port{Flag: "nats-port", Number: 4222},
		S3:             Port{Flag: "s3-port", Number: 7070},
		TemporalConfig: map[string]any{},
	}
}

func (o *Options) flagSet() *flag.FlagSet {
	set := flag.NewFlagSet(Program, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	set.StringVar(&o.DataDir, "data-dir", "", "")
	set.StringVar(&o.EnvFile, "env-file", "", "")
	set.StringVar(&o.IP, "ip", "127.0.0.1", "")
	for _, p := range o.ports() {
		set.IntVar(&p.Number, p.Flag, p.Number, "")
	}
	set.TextVar(&o.LogLevel, "log-level", slog.LevelWarn, "")
	set.BoolVar(&o.JSON, "json", false, "")
	set.BoolVar(&o.NATSSyncAlways, "nats-sync-always", false, "")
	set.Func("temporal-config", "", o.addTemporalConfig)
	return set
}

func (o *Options) ports() []*Port {
	return []*Port{&o.Temporal, &o.UI, &o.NATS, &o.S3}
}

func (o *Options) markExplicit(f *flag.Flag) {
	for _, p := range o.ports() {
		if p.Flag == f.Name {
			p.Explicit = true
		}
	}
}

func (o *Options) addTemporalConfig(assignment string) error {
	key, text, found := strings.Cut(assignment, "=")
	if !found || key == "" {
		return errors.New("want KEY=VALUE")
	}
	o.TemporalConfig[key] = configValue(text)
	return nil
}

// configValue parses whole numbers as int: package json makes a float64 of every
// number, which the server refuses for an int.
func configValue(text string) any {
	if number, err := strconv.Atoi(text); err == nil {
		return number
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return text
	}
	return value
}

// finish checks what package flag can't check, and makes the paths absolute.
func (o *Options) finish() error {
	if o.DataDir == "" {
		return misused("give the folder that keeps everything: --data-dir DIR", "--data-dir is missing")
	}
	if net.ParseIP(o.IP) == nil {
		return misused("give an address of this machine, such as 127.0.0.1", "--ip %q is not an IP address", o.IP)
	}
	for _, p := range o.ports() {
		if p.Number < 0 || p.Number > 65535 {
			return misused("give a port from 1 to 65535, or 0 for a free one", "--%s %d is out of range", p.Flag, p.Number)
		}
	}
	if o.EnvFile == "" {
		o.EnvFile = filepath.Join(o.DataDir, "devstack.env")
	}
	for _, path := range []*string{&o.DataDir, &o.EnvFile} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("resolve %s: %w", *path, err)
		}
		*path = abs
	}
	return nil
}
