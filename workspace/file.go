package workspace

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/archive"
)

// File is a file, folder or symlink of a session's workspace.
type File struct {
	// Path is relative to the workspace: bytes, not always UTF-8. In JSON such
	// a path is an object with the field "base64".
	Path string
	// Mode has the type (regular, fs.ModeDir or fs.ModeSymlink) and the
	// permission bits; a symlink's are none.
	Mode fs.FileMode
	// Size of a regular file, in bytes.
	Size int64
	// SHA256 of a regular file's content, in hex.
	SHA256 string
	// ModTime is a regular file's; zero is unknown.
	ModTime time.Time
	// Link is a symlink's target, bytes as Path is.
	Link string
	// Held means that the entry is in the archive but not in the sandbox: it could not
	// be restored there (a symlink that leads outside, a damaged content, a name that
	// the file system does not take).
	Held bool

	// pieces are the content, in order.
	pieces []piece
}

// Regular reports whether it is a file with content.
func (f File) Regular() bool { return f.Mode.Type() == 0 }

// WithContent returns the file with the content of another one.
func (f File) WithContent(of File) File {
	f.Size, f.SHA256, f.pieces = of.Size, of.SHA256, of.pieces
	return f
}

func (f File) equal(o File) bool {
	return f.Path == o.Path && f.Mode == o.Mode && f.Size == o.Size && f.SHA256 == o.SHA256 && f.ModTime.Equal(o.ModTime) &&
		f.Link == o.Link && f.Held == o.Held && slices.Equal(f.pieces, o.pieces)
}

func comparePaths(x, y File) int { return strings.Compare(x.Path, y.Path) }

// fileJSON is a File's JSON.
type fileJSON struct {
	Path    rawString   `json:"path"`
	Mode    fs.FileMode `json:"mode"`
	Size    int64       `json:"size"`
	SHA256  string      `json:"sha256,omitempty"`
	ModTime time.Time   `json:"modTime,omitzero"`
	Link    rawString   `json:"link,omitempty"`
	Held    bool        `json:"held,omitempty"`
}

// MarshalJSON writes the exported fields.
func (f File) MarshalJSON() ([]byte, error) {
	return json.Marshal(fileJSON{rawString(f.Path), f.Mode, f.Size, f.SHA256, f.ModTime, rawString(f.Link), f.Held})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (f *File) UnmarshalJSON(data []byte) error {
	var j fileJSON
	err := json.Unmarshal(data, &j)
	*f = File{Path: string(j.Path), Mode: j.Mode, Size: j.Size, SHA256: j.SHA256, ModTime: j.ModTime, Link: string(j.Link), Held: j.Held}
	return err
}

// rawString is bytes that are mostly UTF-8: a JSON string then, else an object.
type rawString string

type base64JSON struct {
	Base64 string `json:"base64"`
}

// MarshalJSON keeps every byte.
func (s rawString) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(s)) {
		return json.Marshal(string(s))
	}
	return json.Marshal(base64JSON{base64.StdEncoding.EncodeToString([]byte(s))})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *rawString) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, (*string)(s))
	}
	var b base64JSON
	if err := json.Unmarshal(data, &b); err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(b.Base64)
	*s = rawString(raw)
	return err
}

// checkFiles requires clean paths, each once, and nothing below what is not a
// folder.
func checkFiles(files []File) error {
	folder := make(map[string]bool, len(files))
	for _, f := range files {
		if err := checkPath(f.Path); err != nil {
			return err
		}
		if _, twice := folder[f.Path]; twice {
			return fmt.Errorf("%w path %q: it is there twice", archive.ErrInvalid, f.Path)
		}
		folder[f.Path] = f.Mode.IsDir()
	}
	for _, f := range files {
		if i := strings.LastIndexByte(f.Path, '/'); i > 0 {
			if isFolder, there := folder[f.Path[:i]]; there && !isFolder {
				return fmt.Errorf("%w path %q: what is above it is no folder", archive.ErrInvalid, f.Path)
			}
		}
	}
	return nil
}

// checkPath checks a path that is read from a file system and written to one,
// which is bytes.
func checkPath(path string) error {
	bad := len(path) > 4096 || strings.ContainsRune(path, 0)
	for part := range strings.SplitSeq(path, "/") {
		bad = bad || part == "" || part == "." || part == ".." || len(part) > 255
	}
	if bad {
		return fmt.Errorf("%w path %q: want a relative path without \"..\"", archive.ErrInvalid, path)
	}
	return nil
}
