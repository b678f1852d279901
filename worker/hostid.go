package worker

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// identity is the host that a data folder defines.
type identity struct {
	id     string
	secret []byte
	lock   *os.File
	// temp is the folder for temporary files. It is emptied at start, since a killed
	// worker may have left some.
	temp string
}

// claim locks the data folder for this worker, and reads or makes the host's id
// and secret in it.
func claim(dataDir string) (identity, error) {
	var me identity
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return me, hinted{fmt.Errorf("data folder: %w", err), "name a folder that can be written with --data-dir or SOJOURN_DATA_DIR"}
	}
	var err error
	if me.lock, err = lockFile(filepath.Join(dataDir, "worker.lock")); err != nil {
		return me, hinted{fmt.Errorf("data folder %s: %w", dataDir, err), "one worker serves a data folder; give another one its own with --data-dir"}
	}
	if err := unmarkDead(dataDir); err != nil {
		return me, err
	}
	me.temp = filepath.Join(dataDir, "tmp")
	if err := errors.Join(os.RemoveAll(me.temp), os.Mkdir(me.temp, 0o700)); err != nil {
		return me, fmt.Errorf("data folder: temporary files: %w", err)
	}
	id, err := kept(filepath.Join(dataDir, "host-id"), func() string { return hostName() + "-" + randomHex(3) })
	if err != nil {
		return me, err
	}
	secret, err := kept(filepath.Join(dataDir, "secret"), func() string { return randomHex(32) })
	me.id, me.secret = id, []byte(secret)
	return me, err
}

// kept reads a small file, or writes it first. It is written in one step: hosts
// that took an empty file for their id would be one host.
func kept(path string, fresh func() string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("data folder: %w", err)
	}
	if text := strings.TrimSpace(string(data)); text != "" {
		return text, nil
	}
	text := fresh()
	if err = os.WriteFile(path+".new", []byte(text), 0o600); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return "", fmt.Errorf("data folder: %w", err)
	}
	return text, nil
}

var notInQueue = regexp.MustCompile(`[^a-zA-Z0-9-]+`)

func hostName() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = "host"
	}
	name = strings.Trim(notInQueue.ReplaceAllString(name, "-"), "-")
	if len(name) > 32 {
		name = name[:32]
	}
	return name
}

func randomHex(n int) string {
	b := make([]byte, n)
	// crypto/rand.Read never fails: it ends the program instead.
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
