package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sojourn-run/sojourn/test/modelsim"
)

// workerBin replaces the worker's program, also as an argument of StartWorker.
const workerBin = "SOJOURN_WORKER_BIN="

// StartWorker starts a worker of the space on a data folder, which an earlier worker
// may have used. Each extra argument is a variable, which overrides the stack's, or a
// flag if it begins with "--". SOJOURN_WORKER_BIN replaces the program.
func (s *Space) StartWorker(ctx context.Context, dataDir string, extra ...string) (*Process, error) {
	env := modelsim.Environment(s.ModelURL)
	env = append(env,
		"SOJOURN_PASS_ENV="+names(env), "SOJOURN_DATA_DIR="+dataDir,
		"HOME="+dataDir, "PATH="+s.stack.Agents+":"+s.stack.Bin+":"+os.Getenv("PATH"),
	)
	for k, v := range s.stack.Env {
		env = append(env, k+"="+v)
	}
	env = append(env, "TEMPORAL_NAMESPACE="+s.Namespace)
	var flags []string
	bin := os.Getenv("SOJOURN_WORKER_BIN")
	for _, e := range extra {
		if strings.HasPrefix(e, "--") {
			flags = append(flags, e)
		} else if given, ok := strings.CutPrefix(e, workerBin); ok {
			bin = given
		} else {
			env = append(env, e)
		}
	}
	if bin == "" {
		bin = filepath.Join(s.stack.Bin, "sojourn-worker")
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	return Spawn(ctx, Spec{
		Name: "worker", Dir: dataDir, ReadyText: "ready", Env: env,
		Argv: append([]string{bin, "--log-level", "warn", "--capacity", "32"}, flags...),
	})
}

// names returns the names of an environment's variables, separated by commas.
func names(env []string) string {
	out := make([]string, len(env))
	for i, kv := range env {
		out[i], _, _ = strings.Cut(kv, "=")
	}
	return strings.Join(out, ",")
}

// EndAgents ends the agents that sessions left running on a host. A worker that stops
// leaves its agents warm on purpose.
func EndAgents(dataDir string) error {
	pids, err := Agents(dataDir)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return nil
}

// Agents returns the processes of a data folder's sandboxes, runners and agents, found
// by the variable that marks them.
func Agents(dataDir string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	// One folder's name may be a prefix of another's.
	mark := []byte("SOJOURN_SANDBOX=" + filepath.Clean(dataDir) + string(filepath.Separator))
	var pids []int
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscan(e.Name(), &pid); err != nil {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && bytes.Contains(env, mark) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
