// Package settings reads the programs' settings from the environment, and from a
// file of shell assignments for variables that are not set.
package settings

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/sojourn-run/sojourn/stream"
)

// Settings is the environment, with a file behind it. The zero value is empty.
type Settings struct {
	file   map[string]string
	getenv func(string) string
}

// Open reads the settings file at path; "" is no file. The environment always
// takes precedence over the file.
func Open(path string, getenv func(string) string) (Settings, error) {
	s := Settings{getenv: getenv}
	if path == "" {
		return s, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return s, fmt.Errorf("settings file: %s", plain(err))
	}
	defer f.Close()
	s.file, err = read(f, path)
	return s, err
}

// plain removes the name of the system call from an error.
func plain(err error) string {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Path + ": " + p.Err.Error()
	}
	return err.Error()
}

// Get returns a setting; "" if it is not set.
func (s Settings) Get(name string) string {
	if s.getenv == nil {
		return s.file[name]
	}
	return cmp.Or(s.getenv(name), s.file[name])
}

// LookupEnv and Environ implement the source of Temporal's envconfig.
func (s Settings) LookupEnv(name string) (string, bool) {
	v := s.Get(name)
	return v, v != ""
}

// Environ returns the process's variables, and the file's behind them.
func (s Settings) Environ() []string {
	all := os.Environ()
	for _, name := range slices.Sorted(maps.Keys(s.file)) {
		if s.getenv(name) == "" {
			all = append(all, name+"="+s.file[name])
		}
	}
	return all
}

// Export sets what only the file has in the process's own environment: the AWS
// client and the agents' adapters read nothing else.
func (s Settings) Export() error {
	for _, name := range slices.Sorted(maps.Keys(s.file)) {
		if s.getenv(name) != "" {
			continue
		}
		if err := os.Setenv(name, s.file[name]); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// Temporal reads the TEMPORAL_* settings and Temporal's profile file. Address
// and namespace are never empty.
func (s Settings) Temporal() (client.Options, error) {
	o, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{EnvLookup: s})
	if err != nil {
		return o, fmt.Errorf("Temporal settings: %w", err)
	}
	o.HostPort = cmp.Or(o.HostPort, client.DefaultHostPort)
	o.Namespace = cmp.Or(o.Namespace, client.DefaultNamespace)
	if onThisMachine(o.HostPort) {
		// The client would compress each request, and so the server each answer.
		o.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	}
	return o, nil
}

// onThisMachine reports whether an address is a loopback one.
func onThisMachine(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// DefaultNATS is the stream's address without NATS_URL.
const DefaultNATS = "nats://127.0.0.1:4222"

// NATS returns the address of the stream's server.
func (s Settings) NATS() string { return cmp.Or(s.Get("NATS_URL"), DefaultNATS) }

// NATSAccess returns how to authenticate to the stream's server.
func (s Settings) NATSAccess() stream.Access { return stream.AccessFrom(s.Get) }

var assignment = regexp.MustCompile(`^(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$`)

// read parses shell assignments: one to a line, the value plain or in quotes,
// with comments and blank lines between. It expands nothing.
func read(r io.Reader, name string) (map[string]string, error) {
	vars := map[string]string{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		m := assignment.FindStringSubmatch(line)
		value, ok := "", false
		if m != nil {
			value, ok = unquote(m[2])
		}
		if !ok {
			return nil, fmt.Errorf("settings file: %s:%d: not an assignment", name, n)
		}
		vars[m[1]] = value
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("settings file: %s: %w", name, err)
	}
	return vars, nil
}

// unquote parses one word as a shell does, pieces in different quotes joined; a
// word that would expand something is refused.
func unquote(s string) (string, bool) {
	var b strings.Builder
	for s != "" {
		piece, rest, ok := shellPiece(s)
		if !ok {
			return "", false
		}
		if strings.HasPrefix(rest, " #") || strings.HasPrefix(rest, "\t#") {
			rest = ""
		}
		b.WriteString(piece)
		s = rest
	}
	return b.String(), true
}

func shellPiece(s string) (piece, rest string, ok bool) {
	switch s[0] {
	case '\'':
		return strings.Cut(s[1:], "'")
	case '"':
		return doubleQuoted(s[1:])
	case '\\':
		if len(s) < 2 {
			return "", "", false
		}
		return s[1:2], s[2:], true
	}
	end := strings.IndexAny(s, "'\"\\ \t")
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:], end > 0 && !strings.ContainsAny(s[:end], "$`;&|<>()")
}

func doubleQuoted(s string) (piece, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '$', '`':
			return "", "", false
		case '\\':
			if i+1 < len(s) && strings.IndexByte("\"\\$`", s[i+1]) >= 0 {
				i++
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}
