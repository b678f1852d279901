package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Var is one setting.
type Var struct{ Name, Value string }

// PrepareEnvFile verifies that the settings file can be written and removes an
// old one: a script that waits for it must not find that of an earlier run, nor,
// for a moment, an empty one.
func PrepareEnvFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return failed("give a file that can be written: --env-file FILE", "make folder of settings file: %w", err)
	}
	if err := writable(path); err != nil {
		return failed("give a file that can be written: --env-file FILE", "write settings file: %w", err)
	}
	return RemoveEnvFile(path)
}

// writable returns an error if a file could not be made at path, without making
// one there.
func writable(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder", path)
	}
	tmp, err := beside(path)
	if err != nil {
		return err
	}
	return errors.Join(tmp.Close(), os.Remove(tmp.Name()))
}

// beside makes a file in the folder of path, which can be renamed to it.
func beside(path string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
}

// WriteEnvFile writes vars as lines NAME='value' that a shell can source, mode
// 0600, whole or not at all.
func WriteEnvFile(path string, vars []Var) error {
	var b bytes.Buffer
	for _, v := range vars {
		fmt.Fprintf(&b, "%s=%s\n", v.Name, Quote(v.Value))
	}
	if err := writeAtomically(path, b.Bytes()); err != nil {
		return fmt.Errorf("write settings file: %w", err)
	}
	return nil
}

// RemoveEnvFile removes the settings file; a missing one is not an error.
func RemoveEnvFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove settings file: %w", err)
	}
	return nil
}

// Quote returns s as one word of a POSIX shell.
func Quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// writeAtomically writes a file beside path and renames it, so a reader sees all
// or nothing, and a crash leaves the old file.
func writeAtomically(path string, data []byte) error {
	tmp, err := beside(path)
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
