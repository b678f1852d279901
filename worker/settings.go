package worker

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/sojourn-run/sojourn/activities"
	"github.com/sojourn-run/sojourn/host"
	"github.com/sojourn-run/sojourn/internal/settings"
	"github.com/sojourn-run/sojourn/limits/prices"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/sandbox"
)

// options are a worker's flags and environment.
type options struct {
	settings.Settings
	dataDir  string
	capacity int
	level    slog.Level
	// memory is about what a session may use of this process's memory.
	memory activities.Memory
	// prices are of models whose agents report no cost.
	prices prices.Table
	// hide are files and folders that agents must not see: those with the worker's
	// credentials.
	hide []string
	json bool
	// unsafeLocal lets agents run without isolation.
	unsafeLocal bool
	// network is what agents may reach.
	network sandbox.Network
	// idleLease is how long an idle agent lives without a worker.
	idleLease time.Duration
	// healthEvery is how often idle agents are checked.
	healthEvery time.Duration
	// maxAge is the greatest age of a sandbox; 0 is no bound.
	maxAge time.Duration
	// stopAgents ends the host's agents when the worker is stopped.
	stopAgents bool
	versioning versioning
}

func parseFlags(args []string, getenv func(string) string, stderr io.Writer) (options, error) {
	var s options
	fs := flag.NewFlagSet("sojourn-worker", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	envFile := fs.String("env-file", getenv("SOJOURN_ENV_FILE"), "file of NAME='value' lines that stand in for unset variables")
	fs.StringVar(&s.dataDir, "data-dir", "", "the host's own folder; default $SOJOURN_DATA_DIR, else ~/.local/share/sojourn")
	fs.IntVar(&s.capacity, "capacity", 16*runtime.NumCPU(), "how many sandboxes this host may hold")
	sessionMemory := fs.Int64("session-memory", 0, "about how many MiB of this process's memory a session may take; default $SOJOURN_SESSION_MEMORY, else 64")
	fs.TextVar(&s.level, "log-level", slog.LevelWarn, "debug, info, warn or error")
	fs.BoolVar(&s.stopAgents, "stop-agents", false, "when told to stop, end the host's agents too; their sandboxes stay")
	fs.BoolVar(&s.unsafeLocal, "unsafe-local", false, "run agents also where no namespaces shut them in: they see what this user sees; or $SOJOURN_UNSAFE_LOCAL=true")
	network := fs.String("network", "", "what agents reach: guarded (all but this machine and its services) or host (all); default $SOJOURN_NETWORK, else guarded where this machine allows it")
	fs.BoolVar(&s.json, "json", false, "say in one JSON line that it is ready")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stderr, usage)
			fs.SetOutput(stderr)
			fs.PrintDefaults()
			return s, err
		}
		return s, usageError(err.Error())
	}
	if fs.NArg() > 0 {
		return s, usageError(fmt.Sprintf("unexpected argument %q", fs.Arg(0)))
	}
	if s.capacity < 1 {
		return s, usageError(fmt.Sprintf("--capacity is %d; it must be at least 1", s.capacity))
	}
	if err := s.readSettings(*envFile, getenv); err != nil {
		return s, err
	}
	if err := s.readUnsafeLocal(); err != nil {
		return s, err
	}
	if err := s.setMemory(*sessionMemory); err != nil {
		return s, err
	}
	if err := s.readDurations(); err != nil {
		return s, err
	}
	if err := s.readPrices(); err != nil {
		return s, err
	}
	if err := s.readNetwork(*network); err != nil {
		return s, err
	}
	if err := s.readVersioning(); err != nil {
		return s, err
	}
	return s, s.findDataDir()
}

func (s *options) readUnsafeLocal() error {
	given := s.Get("SOJOURN_UNSAFE_LOCAL")
	if given == "" {
		return nil
	}
	unsafe, err := strconv.ParseBool(given)
	if err != nil {
		return usageError(fmt.Sprintf("SOJOURN_UNSAFE_LOCAL is %q; it must be true or false", given))
	}
	s.unsafeLocal = s.unsafeLocal || unsafe
	return nil
}

// setMemory sets the flag's number of MiB, or for 0 the environment's.
func (s *options) setMemory(mib int64) error {
	name := "--session-memory"
	if text := s.Get("SOJOURN_SESSION_MEMORY"); mib == 0 && text != "" {
		name = "SOJOURN_SESSION_MEMORY"
		var err error
		if mib, err = strconv.ParseInt(text, 10, 64); err != nil {
			return usageError(fmt.Sprintf("%s is %q; it must be a number of MiB, such as 64", name, text))
		}
	}
	if mib == 0 {
		mib = int64(activities.DefaultMemory >> 20)
	}
	if least := int64(activities.MinMemory >> 20); mib < least || mib > maxSessionMemory {
		return usageError(fmt.Sprintf("%s is %d MiB; it must be %d to %d", name, mib, least, maxSessionMemory))
	}
	s.memory = activities.Memory(mib << 20)
	return nil
}

// maxSessionMemory is in MiB.
const maxSessionMemory = 4096

func usageError(msg string) error {
	return wrongUsage{hinted{errors.New(msg), "sojourn-worker --help lists the flags"}}
}

// readSettings opens the environment and the file behind it. The file is hidden
// from agents, since it has the worker's credentials.
func (s *options) readSettings(path string, getenv func(string) string) error {
	var err error
	if s.Settings, err = settings.Open(path, getenv); err != nil {
		return wrongUsage{hinted{err, "name a file of NAME='value' lines, such as sojourn-devstack writes"}}
	}
	if path != "" {
		dir, err := filepath.Abs(filepath.Dir(path))
		if err != nil {
			return usageError(fmt.Sprintf("--env-file: %v", err))
		}
		s.hide = append(s.hide, dir)
	}
	if dir := s.Get("SOJOURN_ARCHIVE_DIR"); dir != "" {
		s.hide = append(s.hide, dir)
	}
	if err := s.hideKeys(); err != nil {
		return err
	}
	return s.Export()
}

// hideKeys hides the worker's key files for NATS, wherever they are.
func (s *options) hideKeys() error {
	for _, file := range s.NATSAccess().Files() {
		path, err := filepath.Abs(file)
		if err != nil {
			return usageError(fmt.Sprintf("%s: %v", file, err))
		}
		s.hide = append(s.hide, path)
	}
	return nil
}

// readDurations reads the settings that are durations.
func (s *options) readDurations() error {
	for _, d := range []struct {
		name, meaning string
		byDefault     time.Duration
		into          *time.Duration
	}{
		{"SOJOURN_IDLE_LEASE", "it is how long an idle agent lives without a worker", runner.DefaultIdleLease, &s.idleLease},
		{"SOJOURN_HEALTH_INTERVAL", "it is how often the worker looks whether idle agents live", host.DefaultHealthEvery, &s.healthEvery},
		{"SOJOURN_SANDBOX_MAX_AGE", "it is how long a sandbox is used before its session moves to a new one, between two turns", 0, &s.maxAge},
	} {
		*d.into = d.byDefault
		given := s.Get(d.name)
		if given == "" {
			continue
		}
		var err error
		if *d.into, err = time.ParseDuration(given); err != nil || *d.into < time.Second {
			return wrongUsage{hinted{fmt.Errorf("%s is %q: want a duration of at least 1s, such as 1h or 90m", d.name, given), d.meaning}}
		}
	}
	return nil
}

// readPrices reads the file with the prices of models, if one is named.
func (s *options) readPrices() error {
	path := s.Get("SOJOURN_PRICES")
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		s.prices, err = prices.Read(f)
	}
	if err != nil {
		return wrongUsage{hinted{fmt.Errorf("SOJOURN_PRICES %s: %w", path, err), "it is a JSON file with prices in dollars per million tokens (docs/operations.md)"}}
	}
	return nil
}

func (s *options) findDataDir() error {
	if s.dataDir == "" {
		s.dataDir = s.Get("SOJOURN_DATA_DIR")
	}
	if s.dataDir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return usageError("no --data-dir, no SOJOURN_DATA_DIR and no home folder")
		}
		s.dataDir = filepath.Join(home, ".local", "share", "sojourn")
	}
	dir, err := filepath.Abs(s.dataDir)
	if err != nil {
		return usageError(fmt.Sprintf("--data-dir %s: %v", s.dataDir, err))
	}
	s.dataDir = dir
	return nil
}

func (s *options) passEnv() []string {
	return commaList(s.Get("SOJOURN_PASS_ENV"))
}
