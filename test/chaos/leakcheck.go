package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sojourn-run/sojourn/runner"
)

// process is a process of a sandbox, as /proc shows it.
type process struct {
	pid, parent int
	started     string
	exe         string
	args        []string
	// sandbox is the folder in its mark.
	sandbox string
}

// runner reports whether it is one of the runner's own processes.
func (p process) runner() bool { return p.exe == "sojourn-runner" }

// supervisor reports whether it is a runner's supervisor, which holds an agent.
func (p process) supervisor() bool {
	return p.runner() && len(p.args) > 1 && p.args[1] == "supervise"
}

// session returns the session of the sandbox. The folder's name is the session's id and
// the epoch.
func (p process) session() string {
	name := filepath.Base(p.sandbox)
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		return name[:i]
	}
	return name
}

// leakCheck looks at the machine's processes repeatedly. It remembers under which
// supervisor a process was seen, also after that supervisor has exited.
type leakCheck struct {
	root string

	mu sync.Mutex
	// marks are the sandboxes of processes by pid and start. looked counts the looks at
	// processes without one: a process has its parent's variables until its exec.
	marks      map[string]string
	looked     map[string]int
	owner      map[string]int
	duplicates map[string]string
}

// looks is how often a process without a mark is looked at before it is ignored.
const looks = 5

func newLeakCheck(root string) *leakCheck {
	return &leakCheck{root: root, marks: map[string]string{}, looked: map[string]int{}, owner: map[string]int{}, duplicates: map[string]string{}}
}

// watch looks until the context ends.
func (c *leakCheck) watch(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.note(c.list())
		}
	}
}

// found returns the duplicates seen so far, by session.
func (c *leakCheck) found() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]string{}
	for id, detail := range c.duplicates {
		out[id] = detail
	}
	return out
}

// list returns the living processes of sandboxes below the root.
func (c *leakCheck) list() []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var out, unmarked []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, ok := c.look(pid)
		if ok {
			out = append(out, p)
		} else if p.parent != 0 {
			unmarked = append(unmarked, p)
		}
	}
	return adopt(out, unmarked)
}

// adopt adds the first processes of agents' PID namespaces, whose marks can't be read.
// They are direct children of a supervisor.
func adopt(marked, unmarked []process) []process {
	above := map[int]process{}
	for _, p := range marked {
		if p.supervisor() {
			above[p.pid] = p
		}
	}
	for _, p := range unmarked {
		if s, ok := above[p.parent]; ok {
			p.sandbox, p.exe, p.args = s.sandbox, s.exe, []string{s.args[0], "init"}
			marked = append(marked, p)
		}
	}
	return marked
}

// alive returns a process, if it has not ended.
func alive(pid int) (process, bool) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return process{}, false
	}
	p := process{pid: pid, started: fields[19]}
	p.parent, _ = strconv.Atoi(fields[1])
	return p, true
}

func (c *leakCheck) look(pid int) (process, bool) {
	p, lives := alive(pid)
	if !lives {
		return p, false
	}
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	if p.sandbox = c.mark(dir, p); p.sandbox == "" {
		return p, false
	}
	exe, _ := os.Readlink(filepath.Join(dir, "exe"))
	p.exe = filepath.Base(strings.TrimSuffix(exe, " (deleted)"))
	args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
	p.args = strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00")
	return p, true
}

func (p process) key() string { return fmt.Sprintf("%d/%s", p.pid, p.started) }

func (c *leakCheck) mark(dir string, p process) string {
	key := p.key()
	if m, ok := c.marks[key]; ok {
		return m
	}
	if c.looked[key] >= looks {
		return ""
	}
	c.looked[key]++
	env, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return ""
	}
	if m := markIn(string(env), c.root); m != "" {
		c.marks[key] = m
	}
	return c.marks[key]
}

// markIn returns the sandbox below the root that a process's variables name. If the
// process ends while they are read, the result is partial: a value without a zero byte
// at its end is cut off, and may name another sandbox.
func markIn(env, root string) string {
	for kv := range strings.SplitAfterSeq(env, "\x00") {
		if v, ok := strings.CutPrefix(kv, runner.MarkEnv+"="+root); ok && strings.HasSuffix(v, "\x00") {
			return root + strings.TrimSuffix(v, "\x00")
		}
	}
	return ""
}

// note records the supervisor of each process, and sessions with two agents.
func (c *leakCheck) note(all []process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for session, groups := range groupAgents(all, c.owner) {
		if len(groups) > 1 && c.duplicates[session] == "" {
			c.duplicates[session] = fmt.Sprintf("%v", groups)
		}
	}
}

// groupAgents returns, per session and supervisor, a process that is not the runner's
// own. owner has the supervisors of earlier looks; new ones are added.
func groupAgents(all []process, owner map[string]int) map[string]map[string]string {
	byPID := map[int]process{}
	for _, p := range all {
		byPID[p.pid] = p
	}
	out := map[string]map[string]string{}
	for _, p := range all {
		if p.runner() {
			continue
		}
		if above := supervisorOf(p, byPID); above != 0 {
			owner[p.key()] = above
		}
		under, known := owner[p.key()]
		if !known {
			continue // a helper process of the worker
		}
		if out[p.session()] == nil {
			out[p.session()] = map[string]string{}
		}
		group := fmt.Sprintf("%s under %d", filepath.Base(p.sandbox), under)
		out[p.session()][group] = fmt.Sprintf("%d %s", p.pid, p.exe)
	}
	return out
}

func supervisorOf(p process, byPID map[int]process) int {
	for range byPID {
		above, ok := byPID[p.parent]
		if !ok {
			return 0
		}
		if above.supervisor() {
			return above.pid
		}
		p = above
	}
	return 0
}

// supervisors returns the supervisors of a session's agents.
func supervisors(all []process, session string) []process {
	var out []process
	for _, p := range all {
		if p.session() == session && p.supervisor() {
			out = append(out, p)
		}
	}
	return out
}

// agents returns the programs that the runner started for a session.
func agents(all []process, session string) []process {
	byPID := map[int]process{}
	for _, p := range all {
		byPID[p.pid] = p
	}
	var out []process
	for _, p := range all {
		if above := byPID[p.parent]; p.session() == session && !p.runner() && above.runner() && supervisorOf(p, byPID) != 0 {
			out = append(out, p)
		}
	}
	return out
}

// tools returns the processes whose command line has the message's mark.
func tools(all []process, session, mark string) []process {
	var out []process
	for _, p := range all {
		if p.session() == session && !p.runner() && strings.Contains(strings.Join(p.args, " "), mark) {
			out = append(out, p)
		}
	}
	return out
}
