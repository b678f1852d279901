package supervisor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/proc"
)

// takeover is how long a start waits for the supervisor of a dead agent to end.
const takeover = 5 * time.Second

// control is the runner's folder on disk. The one live supervisor holds its lock.
type control struct {
	dir  string
	lock *os.File
}

// Saved is the file status.json: the status, and what is needed to recognise
// the processes again.
type Saved struct {
	runner.Status
	// SupervisorProcess and Agent are the processes by pid and start time; Root is
	// the one whose death ends all others.
	SupervisorProcess runner.Process `json:"supervisorProcess"`
	AgentProcess      runner.Process `json:"agentProcess"`
	RootProcess       runner.Process `json:"rootProcess"`
	// WatchdogProcess, if there is no namespace, ends what the supervisor left; see
	// Watchdog. The zero value with a namespace.
	WatchdogProcess runner.Process `json:"watchdogProcess,omitzero"`
}

func openControl(dir string) (*control, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	c := &control{dir: dir, lock: f}
	if err := c.acquire(); err != nil {
		f.Close()
		return nil, err
	}
	return c, nil
}

// acquire takes the lock, if need be from a supervisor that only waits for
// readers of a dead agent's last output, which is on disk.
func (c *control) acquire() error {
	err := unix.Flock(int(c.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return err
	}
	saved, err := ReadSaved(c.dir)
	if err != nil || saved.State != runner.AgentExited {
		return fmt.Errorf("%s: %w", c.dir, runner.ErrRunning)
	}
	if err := proc.Signal(saved.SupervisorProcess, unix.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), takeover)
	defer cancel()
	if err := proc.Wait(ctx, saved.SupervisorProcess); err != nil {
		return fmt.Errorf("wait for the previous supervisor: %w", err)
	}
	if err := unix.Flock(int(c.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%s: %w", c.dir, runner.ErrRunning)
	}
	return nil
}

// endPrevious ensures that a killed supervisor left no agent. The kernel ends the
// agent with its parent, but only just after the lock is free, and the watchdog, if
// there is one, exits after it has ended everything else.
func endPrevious(saved Saved) error {
	ctx, cancel := context.WithTimeout(context.Background(), takeover)
	defer cancel()
	for _, p := range []runner.Process{saved.RootProcess, saved.AgentProcess} {
		if p.Pid == 0 {
			continue
		}
		if err := errors.Join(proc.Signal(p, unix.SIGKILL), proc.Wait(ctx, p)); err != nil {
			return fmt.Errorf("end the previous agent: %w", err)
		}
	}
	if err := saved.AwaitWatchdog(ctx); err != nil {
		return fmt.Errorf("end the previous agent: %w", err)
	}
	return nil
}

// AwaitWatchdog returns when the watchdog has ended, which means that none of its
// processes is left. It must be called after the supervisor's end.
func (s Saved) AwaitWatchdog(ctx context.Context) error {
	if s.WatchdogProcess.Pid == 0 {
		return nil
	}
	if err := proc.Wait(ctx, s.WatchdogProcess); err != nil {
		return fmt.Errorf("wait for its watchdog: %w", err)
	}
	return nil
}

// Held reports whether a supervisor is alive in the control folder.
func Held(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// ReadSaved reads status.json. It returns the zero value and fs.ErrNotExist if no
// agent was ever started.
func ReadSaved(dir string) (Saved, error) {
	var s Saved
	b, err := os.ReadFile(filepath.Join(dir, "status.json"))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("%w: %s: %w", errSaved, filepath.Join(dir, "status.json"), err)
	}
	return s, nil
}

// errSaved means that the stored status can't be read.
var errSaved = errors.New("the status of the agent before is damaged")

func (c *control) write(s Saved) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return c.replace("status.json", b)
}

// replace writes a file so that it is never seen half-written.
func (c *control) replace(name string, b []byte) error {
	tmp := filepath.Join(c.dir, name+".new")
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(c.dir, name))
}

// reserveBytes are kept free for the record of an agent's end on a full disk.
const reserveBytes = 64 << 10

// reserve allocates the space. Without it no agent is started.
func (c *control) reserve() error {
	path := filepath.Join(c.dir, "reserve")
	if info, err := os.Stat(path); err == nil && info.Size() == reserveBytes {
		return nil
	}
	err := os.WriteFile(path, bytes.Repeat([]byte{'r'}, reserveBytes), 0o600)
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// spend frees the reserve for the next write.
func (c *control) spend() error {
	err := os.Remove(filepath.Join(c.dir, "reserve"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// entry is one line of the journal: an input that was accepted. Its bytes are
// in the spool, written just before.
type entry struct {
	Key   string `json:"key"`
	At    int64  `json:"at"`
	Next  int64  `json:"next"`
	Start int    `json:"start"`
	Epoch uint64 `json:"epoch"`
}

// journal has every input id ever accepted in the control folder.
type journal struct {
	file  *os.File
	known map[string]entry
	// damage names the lines that could not be read.
	damage []string
	// starts is how many agent processes have had inputs, at least.
	starts int
}

func openJournal(dir string) (*journal, error) {
	f, err := os.OpenFile(filepath.Join(dir, "inputs.jsonl"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j := &journal{file: f, known: map[string]entry{}}
	if err := j.load(); err != nil {
		f.Close()
		return nil, fmt.Errorf("inputs.jsonl: %w", err)
	}
	return j, nil
}

// load reads every whole line and discards an incomplete one: its input was not
// passed on. A line that can't be read is kept and named: its input may then be
// passed on a second time, to another agent process than the first time.
func (j *journal) load() error {
	var whole int64
	in := bufio.NewReader(j.file)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err // nothing may be cut off that was not read
		}
		var e entry
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil || e.Key == "" {
			j.damage = append(j.damage, fmt.Sprintf("inputs.jsonl: the line at byte %d is damaged: an input's id is not known any more", whole))
		} else {
			j.known[e.Key], j.starts = e, max(j.starts, e.Start+1)
		}
		whole += int64(len(line))
	}
	if err := j.file.Truncate(whole); err != nil {
		return err
	}
	_, err := j.file.Seek(whole, 0)
	return err
}

func (j *journal) add(e entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	at, err := j.file.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = j.file.Write(append(b, '\n'))
	}
	if err != nil {
		// Half a line must not precede the next one.
		_, _ = j.file.Seek(at, io.SeekStart)
		_ = j.file.Truncate(at)
		return fmt.Errorf("journal: %w", err)
	}
	j.known[e.Key] = e
	return nil
}
