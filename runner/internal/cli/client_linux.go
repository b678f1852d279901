package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/spool"
	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

// session is a connected command.
type session struct {
	conn *runner.Conn
	in   *bufio.Reader
	out  io.Writer
	args []string
}

// connected parses the common flags, connects and runs do.
func connected(ctx context.Context, fs *flag.FlagSet, args []string, std io3, do func(context.Context, session) error) error {
	socket := fs.String("socket", "", "")
	epoch := fs.Uint64("epoch", 0, "")
	if err := parse(fs, args, "socket"); err != nil {
		return err
	}
	in := bufio.NewReader(std.in)
	conn, err := dial(ctx, in, *socket, *epoch)
	if err != nil {
		return err
	}
	defer conn.Close()
	return do(ctx, session{conn, in, std.out, fs.Args()})
}

func status(ctx context.Context, args []string, std io3) error {
	fs := flag.NewFlagSet("status", flag.ContinueOnError)
	return connected(ctx, fs, args, std, func(ctx context.Context, s session) error {
		return printJSON(s.out, s.conn.Attached())
	})
}

func stop(ctx context.Context, args []string, std io3) error {
	fs := flag.NewFlagSet("stop", flag.ContinueOnError)
	stdin := fs.Duration("grace-stdin", 0, "")
	term := fs.Duration("grace-term", 0, "")
	return connected(ctx, fs, args, std, func(ctx context.Context, s session) error {
		st, err := s.conn.Stop(ctx, runner.Grace{Stdin: *stdin, Term: *term})
		if err != nil {
			return err
		}
		return printJSON(s.out, st)
	})
}

func input(ctx context.Context, args []string, std io3) error {
	fs := flag.NewFlagSet("input", flag.ContinueOnError)
	id := fs.String("id", "", "")
	return connected(ctx, fs, args, std, func(ctx context.Context, s session) error {
		data, err := io.ReadAll(s.in)
		if err != nil {
			return err
		}
		ack, err := s.conn.Input(ctx, *id, data)
		if err != nil {
			return err
		}
		return printJSON(s.out, ack)
	})
}

// operations of `control`, by name; each prints its result.
var operations = map[string]func(context.Context, session, string) (any, error){
	"signal": func(ctx context.Context, s session, arg string) (any, error) {
		sig, err := parseSignal(arg)
		if err != nil {
			return nil, err
		}
		return nil, s.conn.Signal(ctx, sig)
	},
	"close-input": func(ctx context.Context, s session, _ string) (any, error) {
		return nil, s.conn.CloseInput(ctx)
	},
	"processes": func(ctx context.Context, s session, _ string) (any, error) {
		return s.conn.Mark(ctx)
	},
	"sweep": sweep,
	"lease": func(ctx context.Context, s session, arg string) (any, error) {
		ttl, err := time.ParseDuration(arg)
		if err != nil {
			return nil, fmt.Errorf("%w: lease: %v", errUsage, err)
		}
		return nil, s.conn.Lease(ctx, ttl)
	},
	"trim": func(ctx context.Context, s session, arg string) (any, error) {
		before, err := strconv.ParseInt(arg, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: trim: %v", errUsage, err)
		}
		return nil, s.conn.Trim(ctx, before)
	},
}

func control(ctx context.Context, args []string, std io3) error {
	fs := flag.NewFlagSet("control", flag.ContinueOnError)
	return connected(ctx, fs, args, std, func(ctx context.Context, s session) error {
		name, arg := "", ""
		if len(s.args) > 0 {
			name, arg = s.args[0], strings.Join(s.args[1:], " ")
		}
		op, known := operations[name]
		if !known {
			return fmt.Errorf("%w: control: unknown operation %q", errUsage, name)
		}
		result, err := op(ctx, s, arg)
		if err != nil || result == nil {
			return err
		}
		return printJSON(s.out, result)
	})
}

// sweep takes the mark, as `processes` printed it, from the rest of stdin.
func sweep(ctx context.Context, s session, _ string) (any, error) {
	raw, err := io.ReadAll(s.in)
	if err != nil {
		return nil, err
	}
	var mark runner.Mark
	if raw = bytes.TrimSpace(raw); len(raw) > 0 {
		if err := json.Unmarshal(raw, &mark); err != nil {
			return nil, fmt.Errorf("sweep: mark on stdin: %w", err)
		}
	}
	return s.conn.Sweep(ctx, mark)
}

func parseSignal(name string) (syscall.Signal, error) {
	if n, err := strconv.Atoi(name); err == nil && n > 0 {
		return syscall.Signal(n), nil
	}
	sig := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG"))
	if sig == 0 {
		return 0, fmt.Errorf("%w: unknown signal %q", errUsage, name)
	}
	return sig, nil
}

// records prints the content of the spool, for use without a supervisor. Damage
// is reported on stderr; the rest is printed.
func records(_ context.Context, args []string, std io3) error {
	fs := flag.NewFlagSet("records", flag.ContinueOnError)
	dir := fs.String("control", "", "")
	from := fs.Int64("from", -1, "")
	if err := parse(fs, args, "control"); err != nil {
		return err
	}
	s, err := spool.Load(filepath.Join(*dir, "spool"))
	if err != nil {
		return err
	}
	if *from < 0 {
		*from, _ = s.Bounds() // what archived turns have read may be trimmed
	}
	r, err := s.Reader(*from)
	if err != nil {
		return err
	}
	defer r.Close()
	p := printer{out: bufio.NewWriter(std.out), err: std.err}
	for {
		at, lines, err := r.Next(1 << 20)
		if gap, ok := errors.AsType[*spool.Gap](err); ok {
			p.fault(gap)
			continue
		}
		if err != nil || len(lines) == 0 {
			return flush(p.out, cmp.Or(err, p.damage()))
		}
		for line := range bytes.Lines(lines) {
			if err := p.record(at, line); err != nil {
				return err
			}
			at += int64(len(line))
		}
	}
}

// printer prints records, and reports their damage.
type printer struct {
	out    *bufio.Writer
	err    io.Writer
	faults int
}

func (p *printer) record(at int64, line []byte) error {
	raw := bytes.TrimSuffix(line, []byte{'\n'})
	if _, err := wire.DecodeSummed(raw); err != nil {
		p.fault(fmt.Errorf("spool at byte %d: %w", at, err))
		return nil
	}
	return printJSON(p.out, delivery{at, at + int64(len(line)), raw})
}

func (p *printer) fault(err error) {
	p.faults++
	fmt.Fprintf(p.err, "sojourn-runner: records: %v\n", err)
}

func (p *printer) damage() error {
	if p.faults == 0 {
		return nil
	}
	return fmt.Errorf("records: %d places of the spool are damaged; what could be read is on standard output", p.faults)
}

func flush(out *bufio.Writer, err error) error {
	if ferr := out.Flush(); err == nil {
		err = ferr
	}
	return err
}
