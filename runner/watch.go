package runner

import (
	"encoding/json"
	"io/fs"
	"unicode/utf8"
)

// FileChange is a line of `sojourn-runner watch`: a file of the watched folder
// as it is now. It may be told more than once.
type FileChange struct {
	// Path is relative to the folder, with slashes: bytes, not always UTF-8.
	Path string
	// Gone says that there is no such file any more; the rest is empty then.
	Gone bool
	// Mode has the permission bits.
	Mode fs.FileMode
	Size int64
	// SHA256 of the content, in hex.
	SHA256 string
	// Content is the file's text; nil for what is no text, or too long.
	Content *string
}

// changeJSON is a FileChange on the wire.
type changeJSON struct {
	Path    string      `json:"path,omitempty"`
	Bytes   []byte      `json:"pathBytes,omitempty"`
	Gone    bool        `json:"gone,omitempty"`
	Mode    fs.FileMode `json:"mode,omitempty"`
	Size    int64       `json:"size,omitempty"`
	SHA256  string      `json:"sha256,omitempty"`
	Content *string     `json:"content,omitempty"`
}

// MarshalJSON keeps every byte of the path.
func (c FileChange) MarshalJSON() ([]byte, error) {
	j := changeJSON{Gone: c.Gone, Mode: c.Mode, Size: c.Size, SHA256: c.SHA256, Content: c.Content}
	if utf8.ValidString(c.Path) {
		j.Path = c.Path
	} else {
		j.Bytes = []byte(c.Path)
	}
	return json.Marshal(j)
}

// UnmarshalJSON takes what MarshalJSON gives.
func (c *FileChange) UnmarshalJSON(data []byte) error {
	var j changeJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*c = FileChange{Path: j.Path, Gone: j.Gone, Mode: j.Mode, Size: j.Size, SHA256: j.SHA256, Content: j.Content}
	if len(j.Bytes) > 0 {
		c.Path = string(j.Bytes)
	}
	return nil
}
