package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sojourn-run/sojourn/internal/harness"
)

// monotonic is a clock that all processes of the machine share and nobody
// sets.
func monotonic() time.Duration { return clock(unix.CLOCK_MONOTONIC) }

// processorTime is what this process has used, on all cores.
func processorTime() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func clock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic(err) // every kernel that Go runs on has these clocks
	}
	return time.Duration(ts.Nano())
}

// rss is the resident memory of a process, in bytes.
func rss(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kb float64
			if _, err := fmt.Sscan(rest, &kb); err != nil {
				return 0, fmt.Errorf("memory of process %d: %w", pid, err)
			}
			return kb * 1024, nil
		}
	}
	return 0, fmt.Errorf("memory of process %d: it has ended", pid)
}

// clockTicks per second is what the kernel tells user space on every platform
// that we run on.
const clockTicks = 100

// cpuTime is what a process and its children that it has waited for used.
func cpuTime(stat []byte) (time.Duration, error) {
	// The name, in parentheses, may hold anything.
	at := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[at+1:]))
	const utime = 14 - 3 // counted from 1 in the manual; the third follows the name
	if at < 0 || len(fields) < utime+4 {
		return 0, fmt.Errorf("malformed stat %q", stat)
	}
	ticks := 0
	for _, f := range fields[utime : utime+4] {
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, fmt.Errorf("malformed stat %q: %w", stat, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / clockTicks, nil
}

// agentCPU is what the agents that now live on a host used so far, without
// the runners, and how many there are.
func agentCPU(dataDir string) (sum time.Duration, n int, err error) {
	pids, err := harness.Agents(dataDir)
	if err != nil {
		return 0, 0, err
	}
	for _, pid := range pids {
		dir := fmt.Sprintf("/proc/%d", pid)
		exe, err := os.Readlink(filepath.Join(dir, "exe"))
		if err != nil || strings.HasPrefix(filepath.Base(exe), "sojourn-runner") {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has ended since
		}
		used, err := cpuTime(stat)
		if err != nil {
			return 0, 0, err
		}
		sum += used
		n++
	}
	return sum, n, nil
}

func cpuModel() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(data))[:3], " ")
}
