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

	"github.com/sojourn-run/sojourn/test/harness"
)

// monotonic returns a clock that all processes of the machine share and that is never
// set.
func monotonic() time.Duration { return clock(unix.CLOCK_MONOTONIC) }

// processorTime returns the processor time of this process, on all cores.
func processorTime() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func clock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic(err) // every kernel that Go runs on has these clocks
	}
	return time.Duration(ts.Nano())
}

// rss returns the resident memory of a process, in bytes.
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

// clockTicks per second is the kernel's unit for user space on every platform that
// Sojourn supports.
const clockTicks = 100

// cpuTime returns the processor time of a process and of the children that it has
// waited for.
func cpuTime(stat []byte) (sum time.Duration, err error) {
	times, err := cpuTimes(stat)
	for _, t := range times {
		sum += t
	}
	return sum, err
}

// cpuTimes returns a process's time in user space and in the kernel, and that of the
// children that it has waited for.
func cpuTimes(stat []byte) (times [4]time.Duration, err error) {
	// The name, in parentheses, may contain anything.
	at := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[at+1:]))
	const utime = 14 - 3 // counted from 1 in the manual; the third follows the name
	if at < 0 || len(fields) < utime+4 {
		return times, fmt.Errorf("malformed stat %q", stat)
	}
	for i := range times {
		ticks, err := strconv.Atoi(fields[utime+i])
		if err != nil {
			return [4]time.Duration{}, fmt.Errorf("malformed stat %q: %w", stat, err)
		}
		times[i] = time.Duration(ticks) * time.Second / clockTicks
	}
	return times, nil
}

// used is what processes have used so far: bytes read, from files and connections
// alike, and seconds of processor time.
type used struct{ read, cpu float64 }

// usageOf returns what a process has used, with the children that it has waited for.
func usageOf(pid int) (u used, err error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	io, err := os.ReadFile(filepath.Join(dir, "io"))
	if err != nil {
		return u, err
	}
	if _, err := fmt.Sscanf(string(io), "rchar: %f", &u.read); err != nil {
		return u, fmt.Errorf("malformed %s/io: %w", dir, err)
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return u, err
	}
	times, err := cpuTimes(stat)
	if err != nil {
		return u, err
	}
	// The process's own times are in ticks of 10 ms, its threads' in nanoseconds.
	u.cpu = (times[2] + times[3]).Seconds()
	threads, err := filepath.Glob(filepath.Join(dir, "task", "*", "schedstat"))
	for _, t := range threads {
		var ns float64
		data, err := os.ReadFile(t)
		if err != nil {
			continue // the thread has ended
		}
		if _, err := fmt.Sscan(string(data), &ns); err != nil {
			return u, fmt.Errorf("malformed %s: %w", t, err)
		}
		u.cpu += ns / 1e9
	}
	return u, err
}

// isNoRunner reports whether a process is not one of Sojourn's runners.
func isNoRunner(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err != nil || !strings.HasPrefix(filepath.Base(exe), "sojourn-runner")
}

// agentCPU returns what the living agents on a host have used so far, without the
// runners, and the number of agents.
func agentCPU(dataDir string) (sum time.Duration, n int, err error) {
	pids, err := harness.Agents(dataDir)
	if err != nil {
		return 0, 0, err
	}
	for _, pid := range pids {
		dir := fmt.Sprintf("/proc/%d", pid)
		if !isNoRunner(pid) {
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
