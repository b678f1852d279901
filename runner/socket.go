package runner

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
)

// maxSocketPath is the kernel's limit, without the closing NUL byte.
const maxSocketPath = 107

// SocketPath returns the path for the control socket of the sandbox with this id:
// short, because the kernel allows 107 bytes, and the same for every process on
// the host. The error names the data folder when it is too long.
func SocketPath(dataDir, id string) (string, error) {
	sum := sha256.Sum256([]byte(id))
	p := filepath.Join(dataDir, "s", hex.EncodeToString(sum[:])[:12])
	if err := CheckSocketPath(ToolSocketPath(p)); err != nil {
		return "", fmt.Errorf("data folder %s: %w", dataDir, err)
	}
	return p, nil
}

// CheckSocketPath refuses a path that is too long for the kernel.
func CheckSocketPath(p string) error {
	if len(p) > maxSocketPath {
		return fmt.Errorf("socket path %s has %d bytes, the system allows %d: choose a shorter data folder", p, len(p), maxSocketPath)
	}
	return nil
}

// Token derives the token of a sandbox from the host's secret, so that the host's
// next worker can attach although no token was stored.
func Token(secret []byte, sandboxID string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("sojourn-runner " + sandboxID))
	return hex.EncodeToString(mac.Sum(nil))
}
