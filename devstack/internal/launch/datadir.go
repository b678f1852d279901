package launch

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// DataDir is the folder with everything, locked by this process.
type DataDir struct {
	path string
	lock *os.File
}

// OpenDataDir makes the folder if it is missing (mode 0700: it has a secret key)
// and locks it. A folder that another devstack holds is an [*Error]. The lock
// ends with the process, however that ends.
func OpenDataDir(path string) (*DataDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, failed("give a folder that can be written: --data-dir DIR", "make data folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, failed("give a folder that can be written: --data-dir DIR", "open lock of data folder: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer lock.Close()
		return nil, explainLock(path, lock, err)
	}
	d := &DataDir{path: path, lock: lock}
	if err := d.signLock(); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

func explainLock(path string, lock *os.File, err error) error {
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("lock data folder %s: %w", path, err)
	}
	holder := "another devstack"
	signature := make([]byte, 20)
	if n, _ := lock.ReadAt(signature, 0); n > 0 {
		holder += fmt.Sprintf(" (process %s)", strings.TrimSpace(string(signature[:n])))
	}
	return failed("stop that one, or give another --data-dir", "data folder %s is in use by %s", path, holder)
}

// signLock writes the process id for a process that finds the folder locked.
func (d *DataDir) signLock() error {
	if err := d.lock.Truncate(0); err != nil {
		return fmt.Errorf("sign lock of data folder: %w", err)
	}
	if _, err := d.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("sign lock of data folder: %w", err)
	}
	return nil
}

// Path returns the path of name inside the folder.
func (d *DataDir) Path(name string) string { return filepath.Join(d.path, name) }

// Folder makes the subfolder name if it is missing and returns its path.
func (d *DataDir) Folder(name string) (string, error) {
	path := d.Path(name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("make folder in data folder: %w", err)
	}
	return path, nil
}

// Close releases the folder. Closing twice is harmless.
func (d *DataDir) Close() error {
	if err := d.lock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("unlock data folder: %w", err)
	}
	return nil
}

// Credentials are the keys of the S3 gateway's only account, and the token that
// NATS requires of every client.
type Credentials struct {
	AccessKeyID     string `json:"accessKeyId"`
	SecretAccessKey string `json:"secretAccessKey"`
	NATSToken       string `json:"natsToken"`
}

// Credentials returns the folder's keys and makes them on first use.
func (d *DataDir) Credentials() (Credentials, error) {
	path := d.Path("credentials.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return d.makeCredentials(path)
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("read keys: %w", err)
	}
	var c Credentials
	if err := json.Unmarshal(data, &c); err != nil || c.AccessKeyID == "" || c.SecretAccessKey == "" {
		return Credentials{}, failed("remove that file: new keys are made, the objects stay",
			"%s holds no pair of keys", path)
	}
	if c.NATSToken == "" {
		// The folder predates the NATS token.
		c.NATSToken = rand.Text()
		return c, keep(path, c)
	}
	return c, nil
}

func (d *DataDir) makeCredentials(path string) (Credentials, error) {
	c := Credentials{
		AccessKeyID:     "SOJOURN" + rand.Text()[:13],
		SecretAccessKey: (rand.Text() + rand.Text())[:40],
		NATSToken:       rand.Text(),
	}
	return c, keep(path, c)
}

func keep(path string, c Credentials) error {
	data, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode keys: %w", err)
	}
	if err := writeAtomically(path, append(data, '\n')); err != nil {
		return fmt.Errorf("keep keys: %w", err)
	}
	return nil
}
