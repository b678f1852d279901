package host

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// ErrDamaged means that a checkpoint was read from the disk and can't be used: it was
// changed or truncated there, or a later build wrote it.
var ErrDamaged = errors.New("the checkpoint is damaged")

// Checkpoints are the checkpoints of a host's sandboxes: one file each in the data folder,
// inaccessible to the agents, for as long as the sandbox exists. Safe for concurrent use.
type Checkpoints struct {
	dir string
	mu  sync.Mutex
}

// NewCheckpoints returns the checkpoints in a data folder.
func NewCheckpoints(dataDir string) *Checkpoints {
	// The folder keeps its name from earlier builds.
	return &Checkpoints{dir: filepath.Join(dataDir, "bookmarks")}
}

// Path returns where a sandbox's checkpoint is stored.
func (c *Checkpoints) Path(sandboxID string) string { return filepath.Join(c.dir, sandboxID+".json") }

// Load reads a sandbox's checkpoint; the zero value if there is none. If the file can't be
// used, the error wraps [ErrDamaged] and names the file.
func (c *Checkpoints) Load(sandboxID string) (Checkpoint, error) {
	data, err := os.ReadFile(c.Path(sandboxID))
	if errors.Is(err, fs.ErrNotExist) {
		return Checkpoint{}, nil
	}
	if err != nil {
		return Checkpoint{}, fmt.Errorf("checkpoint of sandbox %s: %w", sandboxID, err)
	}
	cp, err := decode(data)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("checkpoint of sandbox %s: %w: %s: %w", sandboxID, ErrDamaged, c.Path(sandboxID), err)
	}
	return cp, nil
}

// Save replaces the checkpoint atomically: a crash leaves the old one or the new one.
func (c *Checkpoints) Save(sandboxID string, cp Checkpoint) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replace(sandboxID, cp)
}

// SaveIf replaces the checkpoint if the saved one still meets a condition.
func (c *Checkpoints) SaveIf(sandboxID string, cp Checkpoint, still func(saved Checkpoint) bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	saved, err := c.Load(sandboxID)
	if err != nil || !still(saved) {
		return err
	}
	return c.replace(sandboxID, cp)
}

func (c *Checkpoints) replace(sandboxID string, cp Checkpoint) error {
	data, err := encode(cp)
	if err == nil {
		err = replaceFile(c.Path(sandboxID), data)
	}
	if err != nil {
		return fmt.Errorf("checkpoint of sandbox %s: %w", sandboxID, err)
	}
	return nil
}

// Remove removes the checkpoint of a sandbox, if there is one.
func (c *Checkpoints) Remove(sandboxID string) error {
	if err := os.Remove(c.Path(sandboxID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("checkpoint of sandbox %s: %w", sandboxID, err)
	}
	return nil
}

// RemoveHalfWritten removes what a killed process was writing. It must not run concurrently
// with a save.
func (c *Checkpoints) RemoveHalfWritten() error { return removeHalfWritten(c.dir) }

// checkpointVersion is the format version of this build. It must be increased when an older
// build can't understand what this one writes.
const checkpointVersion = 1

// header are the fields of a file besides the checkpoint's own. They are first, on the same
// level, so that a build from before them reads the file too.
type header struct {
	Version int `json:"version"`
	// Sum is the SHA-256, in hexadecimal, of the file with this field empty.
	Sum string `json:"sum"`
}

const emptySum = `"sum":""`

func sumField(sum string) []byte { return []byte(`"sum":"` + sum + `"`) }

// encode returns a checkpoint as a file's content.
func encode(cp Checkpoint) ([]byte, error) {
	bare, err := json.Marshal(struct {
		header
		Checkpoint
	}{header{Version: checkpointVersion}, cp})
	if err != nil {
		return nil, err
	}
	return bytes.Replace(bare, []byte(emptySum), sumField(sumOf(bare)), 1), nil
}

// decode is the reverse of encode. Of files of earlier builds, which have neither version
// nor sum, only the syntax is checked.
func decode(data []byte) (cp Checkpoint, err error) {
	var h header
	if err := json.Unmarshal(data, &h); err != nil {
		return cp, err
	}
	if h.Version > checkpointVersion {
		return cp, fmt.Errorf("its version is %d, and this build reads up to %d", h.Version, checkpointVersion)
	}
	if h != (header{}) {
		bare := bytes.Replace(data, sumField(h.Sum), []byte(emptySum), 1)
		if sum := sumOf(bare); sum != h.Sum {
			return cp, fmt.Errorf("its checksum is %q, and its content has %q", h.Sum, sum)
		}
	}
	if err := json.Unmarshal(data, &cp); err != nil {
		return Checkpoint{}, err
	}
	return cp, nil
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
