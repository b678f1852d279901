package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/traffic"
)

// exitCode is the exit code of a program that record or run ran; it is not an
// error of this program.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit %d", int(c)) }

// record runs an agent's program and writes every line of either direction to a
// file before it passes it on: for agents whose own transcripts are not
// documented. The file only grows, by whole lines; what a kill left of one the host has set
// aside before.
func record(_ context.Context, args []string, std io3) error {
	fs := flag.NewFlagSet("record", flag.ContinueOnError)
	file := fs.String("file", "", "")
	if err := parse(fs, args, "file"); err != nil {
		return err
	}
	if fs.NArg() == 0 {
		return fmt.Errorf("%w: record: no program", errUsage)
	}
	rec, err := openRecorder(*file)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	code, err := rec.run(fs.Args(), std)
	if err = errors.Join(err, rec.close()); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

// recorder appends records to its file, and those of the process's beginning to a
// second file beside it, so that how the process was opened can be read without
// reading everything.
type recorder struct {
	mu         sync.Mutex
	file, head *os.File
	headed     int
	buf        []byte
	failed     error
	child      *os.Process
}

// headSuffix is that of the file's name for the records of the last process's beginning.
const headSuffix = ".head"

const (
	// headSize is enough for the opening of any protocol.
	headSize = 1 << 20
	// drain is how long an ended program's output is waited for: a process below it may
	// keep it open.
	drain = 2 * time.Second
)

func openRecorder(name string) (*recorder, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	head, err := os.Create(name + headSuffix)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &recorder{file: file, head: head}, nil
}

// run relays until the program has ended and its output is read.
func (r *recorder) run(argv []string, std io3) (code int, err error) {
	// The child dies with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = std.err
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer read.Close()
	cmd.Stdout = write
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	err = cmd.Start()
	write.Close() // the program has its own
	if err != nil {
		return 0, err
	}
	r.child = cmd.Process
	out := &output{file: read, ended: make(chan struct{}), left: drain}
	done := make(chan struct{})
	defer close(done)
	go pass(signals, cmd.Process, done)
	// This one is not waited for: a read of our input can't be interrupted.
	go func() {
		r.relay(event.DirIn, std.in, in)
		in.Close()
	}()
	relayed := make(chan struct{})
	go func() {
		r.relay(event.DirOut, out, std.out)
		close(relayed)
	}()
	state, err := cmd.Process.Wait()
	if err != nil {
		return 0, err
	}
	close(out.ended)
	_ = read.SetReadDeadline(time.Now().Add(drain)) // for a read that waits already
	<-relayed
	return ended(state), r.fault()
}

// output reads a program's output until the program has ended and reads have waited for drain
// in all. The time in which the reader of what is relayed is busy does not count: what the
// program wrote last would be lost.
type output struct {
	file  *os.File
	ended chan struct{}
	left  time.Duration
}

func (o *output) Read(p []byte) (int, error) {
	select {
	case <-o.ended:
	default:
		return o.file.Read(p)
	}
	began := time.Now()
	if err := o.file.SetReadDeadline(began.Add(o.left)); err != nil {
		return 0, err
	}
	n, err := o.file.Read(p)
	o.left -= time.Since(began)
	return n, err
}

// pass forwards signals to the child.
func pass(signals <-chan os.Signal, child *os.Process, done <-chan struct{}) {
	for {
		select {
		case s := <-signals:
			_ = child.Signal(s) // it may have ended
		case <-done:
			return
		}
	}
}

// ended returns the exit code as a shell reports it.
func ended(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// relay passes lines on after they are recorded. If the reader is gone it still
// records, so that the program does not block.
func (r *recorder) relay(dir event.Dir, from io.Reader, to io.Writer) {
	lines := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := readLine(lines)
		if len(line) > 0 {
			if r.write(dir, line) != nil {
				return
			}
			if _, werr := to.Write(line); werr != nil {
				to = io.Discard
			}
		}
		if err != nil {
			return
		}
	}
}

// readLine reads a line of any length with its end, if it has one. It is valid
// until the next call.
func readLine(lines *bufio.Reader) ([]byte, error) {
	line, err := lines.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	long := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = lines.ReadSlice('\n')
		long = append(long, line...)
	}
	return long, err
}

// write appends a record. A line that can't be recorded must not be passed on:
// the program is ended then.
func (r *recorder) write(dir event.Dir, line []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return r.failed
	}
	text := string(bytes.TrimSuffix(line, []byte("\n")))
	if dir == event.DirIn {
		text = withoutSecrets(text)
	}
	r.buf = append(traffic.Append(r.buf[:0], traffic.Record{TS: time.Now(), Dir: dir, Line: text}), '\n')
	_, r.failed = r.file.Write(r.buf)
	if r.headed += len(r.buf); r.failed == nil && r.headed <= headSize {
		_, r.failed = r.head.Write(r.buf)
	}
	if r.failed != nil {
		_ = r.child.Kill() // it may have ended
	}
	if cap(r.buf) > headSize {
		r.buf = nil
	}
	return r.failed
}

// withoutSecrets returns a request without the values of its MCP servers' environments and
// headers, as the Agent Client Protocol has them: the record becomes the session's transcript,
// which is archived and exported.
func withoutSecrets(text string) string {
	if !strings.Contains(text, `"mcpServers"`) {
		return text
	}
	var request map[string]any
	if json.Unmarshal([]byte(text), &request) != nil {
		return text // no request
	}
	params, _ := request["params"].(map[string]any)
	servers, _ := params["mcpServers"].([]any)
	if len(servers) == 0 {
		return text
	}
	for _, server := range servers {
		fields, _ := server.(map[string]any)
		for _, list := range []string{"env", "headers"} {
			pairs, _ := fields[list].([]any)
			for _, pair := range pairs {
				if p, ok := pair.(map[string]any); ok {
					p["value"] = ""
				}
			}
		}
	}
	out, err := json.Marshal(request)
	if err != nil {
		return text
	}
	return string(out)
}

func (r *recorder) fault() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = os.ErrClosed // for a line of our input that arrives late
	}
	return errors.Join(r.file.Close(), r.head.Close())
}
