package session

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/sandbox"
	"github.com/sojourn-run/sojourn/workspace"
)

// ExportFormat is the form that Export writes. Later additions to it don't change
// the existing parts.
const ExportFormat = "sojourn-session/1"

// Exported is session.json, the first file of an export.
type Exported struct {
	Format  string           `json:"format"`
	Session archive.ListData `json:"session"`
	// Transcripts are the files below home/, at their paths in the agent's home:
	// `sojourn parse` reads that folder.
	Transcripts []archive.TranscriptInfo `json:"transcripts"`
	// Files are those below workspace/. Symlinks that lead outside are listed and not
	// written.
	Files []workspace.File `json:"files"`
	// Faults as in Conversation.
	Faults []string `json:"faults,omitempty"`
}

// Export writes everything archived of a session, open or closed, as one tar
// file: session.json ([Exported]), conversation.json (the state, as Show has it),
// home/ (the native transcripts, byte for byte) and workspace/. It needs no
// sandbox and no worker, and holds the conversation and one rewritten transcript
// in memory at a time. The same archive makes the same bytes. Errors:
// [ErrNotFound], [ErrNotBegun], [ErrNoArchive], or what could not be read or written; after an
// error the written file is incomplete, but after a [*DamagedError].
func (c *Client) Export(ctx context.Context, id string, w io.Writer) error {
	if err := ValidateID("id", id); err != nil {
		return err
	}
	conv, err := c.Show(ctx, id, FromArchive)
	if err != nil {
		return err
	}
	e := exporter{c: c, id: id, out: tar.NewWriter(w)}
	if err := e.write(ctx, conv); err != nil {
		return fmt.Errorf("export session %s: %w", id, err)
	}
	return nil
}

// DamagedError means that an export is complete but for what is damaged in the archive. The
// export's last file, damage.json, has the same entries.
type DamagedError struct{ Entries []DamagedEntry }

// DamagedEntry is a file of an export whose archived content is damaged: from where it can't
// be read on it has zeros, up to its size. A transcript that can't be read at all is left out.
type DamagedEntry struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

func (e *DamagedError) Error() string {
	lines := make([]string, len(e.Entries))
	for i, d := range e.Entries {
		lines[i] = d.Path + ": " + d.Reason
	}
	return "damaged in the archive: " + strings.Join(lines, "; ")
}

type exporter struct {
	c       *Client
	id      string
	out     *tar.Writer
	damaged []DamagedEntry
}

func (e *exporter) write(ctx context.Context, conv Conversation) error {
	data, err := e.c.record(ctx, e.id, FromArchive)
	if err != nil {
		return err
	}
	head := Exported{Format: ExportFormat, Session: data, Faults: conv.Faults}
	if head.Transcripts, err = e.c.o.Archive.Transcripts(ctx, e.id); err != nil {
		return err
	}
	files, err := workspace.Open(ctx, e.c.o.Archive, e.id, 0)
	if err != nil {
		return err
	}
	head.Files = files.Files()
	if err := e.value("session.json", head); err != nil {
		return err
	}
	if err := e.value("conversation.json", conv.State); err != nil {
		return err
	}
	for _, t := range head.Transcripts {
		if err := e.transcript(ctx, t); err != nil && !e.damage("home/"+t.Path, err) {
			return fmt.Errorf("transcript %s: %w", t.Path, err)
		}
	}
	for f, err := range files.Contents(ctx) {
		if err == nil && (f.Link == "" || sandbox.LinkStays(f.Path, f.Link)) {
			err = e.file(f)
		}
		if err != nil {
			return fmt.Errorf("workspace file %q: %w", f.Path, err)
		}
	}
	return e.close()
}

// close ends the tar file, with the list of what is damaged.
func (e *exporter) close() error {
	if len(e.damaged) == 0 {
		return e.out.Close()
	}
	if err := e.value("damage.json", e.damaged); err != nil {
		return err
	}
	return errors.Join(e.out.Close(), &DamagedError{Entries: e.damaged})
}

// damage notes an entry whose archived content is damaged, and reports whether it is that.
func (e *exporter) damage(name string, err error) bool {
	is := errors.Is(err, archive.ErrCorrupt)
	if is {
		e.damaged = append(e.damaged, DamagedEntry{Path: name, Reason: err.Error()})
	}
	return is
}

// entry writes one regular file, whose content must have size bytes; what is damaged is zero.
func (e *exporter) entry(name string, mode fs.FileMode, at time.Time, size int64, content io.Reader) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(mode.Perm()), Size: size, ModTime: atLeastUnix(at), Format: tar.FormatPAX}
	if err := e.out.WriteHeader(h); err != nil {
		return err
	}
	if size == 0 {
		return nil
	}
	n, err := io.CopyN(e.out, content, size)
	if err != nil && e.damage(name, err) {
		_, err = io.CopyN(e.out, zeros{}, size-n)
	}
	return err
}

// zeros reads as zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// atLeastUnix returns a time that tar can write.
func atLeastUnix(t time.Time) time.Time {
	if t.Before(time.Unix(0, 0)) {
		return time.Unix(0, 0)
	}
	return t
}

func (e *exporter) value(name string, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	return e.entry(name, 0o644, time.Time{}, int64(b.Len()), &b)
}

// transcript writes a transcript as it was when the export began. One that the
// agent rewrites may have changed since, and is exported as it is.
func (e *exporter) transcript(ctx context.Context, t archive.TranscriptInfo) error {
	if t.Kind == adapters.Snapshot {
		data, err := readTranscript(ctx, e.c.o.Archive, e.id, t.ID)
		if err != nil {
			return err
		}
		return e.entry("home/"+t.Path, 0o600, time.Time{}, int64(len(data)), bytes.NewReader(data))
	}
	r, err := e.c.o.Archive.ReadTranscript(ctx, e.id, t.ID)
	if err != nil {
		return err
	}
	defer r.Close() // it was only read
	return e.entry("home/"+t.Path, 0o600, time.Time{}, t.Size, r)
}

func (e *exporter) file(f workspace.Content) error {
	name := "workspace/" + f.Path
	switch f.Mode.Type() {
	case fs.ModeDir:
		return e.out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: int64(f.Mode.Perm()), ModTime: atLeastUnix(f.ModTime), Format: tar.FormatPAX})
	case fs.ModeSymlink:
		return e.out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: f.Link, Mode: 0o777, ModTime: atLeastUnix(f.ModTime), Format: tar.FormatPAX})
	}
	return e.entry(name, f.Mode, f.ModTime, f.Size, f.Body)
}
