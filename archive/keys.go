package archive

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ServerTranscript is the id of the transcript of server entries.
const ServerTranscript = "sojourn"

func (a *Archive) sessionsKey() string         { return a.root + "sessions/" }
func (a *Archive) sessionKey(id string) string { return a.sessionsKey() + id + "/" }
func (a *Archive) headKey(id string) string    { return a.sessionKey(id) + "head.json" }
func (a *Archive) recordKey(id string) string  { return a.sessionKey(id) + "session.json" }
func (a *Archive) closedKey() string           { return a.root + "by-closed/" }
func (a *Archive) profilesKey() string         { return a.root + "profiles/" }
func (a *Archive) transcriptsKey(id string) string {
	return a.sessionKey(id) + "transcripts/"
}

func (a *Archive) transcriptKey(session, transcript string) string {
	return a.transcriptsKey(session) + escape(transcript) + "/"
}

// escape returns any text as one safe component of a key: stores that keep
// objects as files must not get a slash, a leading dot or a byte that is not
// ASCII.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; plain(c) && !(c == '.' && i == 0) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}

func checkSession(id string) error {
	if len(id) == 0 || len(id) > 64 || strings.ContainsFunc(id, func(r rune) bool { return r == '.' || r > 127 || !plain(byte(r)) }) {
		return fmt.Errorf("%w session id %q: want 1 to 64 of A-Z a-z 0-9 _ -", ErrInvalid, id)
	}
	return nil
}

func checkTranscriptID(id string) error {
	if id == "" || len(escape(id)) > 200 || !utf8.ValidString(id) {
		return fmt.Errorf("%w transcript id %q: want 1 to 200 bytes of UTF-8", ErrInvalid, id)
	}
	return nil
}

// CheckPath reports whether a path may be written below a folder: relative, with
// slashes, without "..", valid UTF-8. It can't check symbolic links: the writer
// opens it through os.Root.
func CheckPath(path string) error {
	if !fs.ValidPath(path) || path == "." || len(path) > 1024 || strings.ContainsAny(path, "\\\x00:") || !utf8.ValidString(path) {
		return fmt.Errorf("%w path %q: want a relative path without \"..\"", ErrInvalid, path)
	}
	return nil
}

// segment is a part of a transcript in one object. Its text form is the object's
// name.
type segment struct {
	epoch      uint64
	start, end int64
	sum        [32]byte
	// rev distinguishes equal contents of a snapshot at different times, so that a
	// late deletion of the first never hits the second; 0 in append kinds.
	rev uint64
}

func (s segment) size() int64 { return s.end - s.start }

func (s segment) String() string {
	name := fmt.Sprintf("%d-%d-%d-%x", s.epoch, s.start, s.end, s.sum)
	if s.rev > 0 {
		name += "-" + strconv.FormatUint(s.rev, 10)
	}
	return name
}

// MarshalText returns the object's name.
func (s segment) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText accepts exactly what MarshalText returns.
func (s *segment) UnmarshalText(text []byte) error {
	bad := fmt.Errorf("%w segment name %q", ErrInvalid, text)
	f := strings.Split(string(text), "-")
	if len(f) < 4 || len(f) > 5 || len(f[3]) != 64 {
		return bad
	}
	var n segment
	var err [5]error
	n.epoch, err[0] = strconv.ParseUint(f[0], 10, 64)
	n.start, err[1] = strconv.ParseInt(f[1], 10, 64)
	n.end, err[2] = strconv.ParseInt(f[2], 10, 64)
	_, err[3] = hex.Decode(n.sum[:], []byte(f[3]))
	if len(f) == 5 {
		n.rev, err[4] = strconv.ParseUint(f[4], 10, 64)
	}
	if err != [5]error{} || n.start < 0 || n.end <= n.start || n.String() != string(text) {
		return bad
	}
	*s = n
	return nil
}

// markerName returns a name that sorts newest first. Years before 1970 count as
// 1970.
func markerName(at time.Time, id string) string {
	return fmt.Sprintf("%019d-%s", math.MaxInt64-max(at.UnixMilli(), 0), id)
}

func parseMarker(name string) (at time.Time, id string, err error) {
	digits, id, ok := strings.Cut(name, "-")
	n, perr := strconv.ParseInt(digits, 10, 64)
	if !ok || perr != nil || len(digits) != 19 || n < 0 || checkSession(id) != nil {
		return time.Time{}, "", fmt.Errorf("%w marker %q", ErrInvalid, name)
	}
	return time.UnixMilli(math.MaxInt64 - n).UTC(), id, nil
}
