package adaptertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/test/replay"
)

// archive stores a session's transcripts as the host's archive does: whole lines of
// those that grow, the changes of exported ones, and the newest version of the others.
type archive struct {
	exporter adapters.Exporter
	kept     map[string]*keptFile
	order    []string
}

type keptFile struct {
	adapters.Transcript
	data   []byte
	cursor json.RawMessage
}

func newArchive(a adapters.Adapter) *archive {
	exporter, _ := a.(adapters.Exporter)
	return &archive{exporter: exporter, kept: map[string]*keptFile{}}
}

// sync archives what is new.
func (a *archive) sync(home adapters.Home, found []adapters.Transcript) error {
	for i, t := range found {
		if slices.ContainsFunc(found[:i], func(o adapters.Transcript) bool { return o.ID == t.ID }) {
			return fmt.Errorf("two transcripts have the id %s, the second is %s", t.ID, t.Path)
		}
		f := a.kept[t.ID]
		if f == nil {
			f = &keptFile{}
			a.kept[t.ID] = f
			a.order = append(a.order, t.ID)
		}
		f.Transcript = t
		if err := a.take(home, f); err != nil {
			return fmt.Errorf("archive %s: %w", t.Path, err)
		}
	}
	return nil
}

func (a *archive) take(home adapters.Home, f *keptFile) error {
	if a.exporter != nil && f.Kind == adapters.Snapshot {
		var lines []byte
		next, err := a.exporter.Export(home, f.Transcript, f.cursor, func(piece []byte) error {
			lines = append(lines, piece...)
			return nil
		})
		if err != nil {
			return err
		}
		if len(lines) > 0 && lines[len(lines)-1] != '\n' {
			return fmt.Errorf("the export ends inside a line")
		}
		f.data, f.cursor = append(f.data, lines...), next
		return nil
	}
	file, err := home.Open(f.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	if err != nil || f.Kind == adapters.Snapshot {
		f.data = data
		return err
	}
	if !bytes.HasPrefix(data, f.data) {
		return fmt.Errorf("it is declared to grow only, but its first %d bytes are no longer the same", len(f.data))
	}
	f.data = data[:bytes.LastIndexByte(data, '\n')+1]
	return nil
}

// sources returns the archive's transcripts, for Parse and Import.
func (a *archive) sources() []adapters.Source {
	var out []adapters.Source
	for _, id := range a.order {
		f := a.kept[id]
		data := f.data // what is archived now
		out = append(out, adapters.Source{Transcript: f.Transcript, Open: func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(data)), nil
		}})
	}
	return out
}

// same reports whether the home has exactly the archived bytes of every transcript, so
// that parsing the archive would add nothing.
func (a *archive) same(home adapters.Home) bool {
	for _, f := range a.kept {
		if a.exporter != nil && f.Kind == adapters.Snapshot {
			return false
		}
		file, err := home.Open(f.Path)
		if err != nil {
			return false
		}
		data, err := io.ReadAll(file)
		file.Close()
		if err != nil || !bytes.Equal(data, f.data) {
			return false
		}
	}
	return true
}

// restore returns the files for the home of another launch.
func (a *archive) restore(adapter adapters.Adapter, l adapters.Launch) ([]adapters.File, error) {
	var files []adapters.File
	var exported []adapters.Source
	for _, s := range a.sources() {
		if a.exporter != nil && s.Kind == adapters.Snapshot {
			exported = append(exported, s)
			continue
		}
		files = append(files, adapters.File{
			Base: adapters.InHome, Path: adapter.Place(s.Transcript, l), Mode: 0o600, Data: a.kept[s.ID].data,
		})
	}
	if len(exported) == 0 {
		return files, nil
	}
	imported, err := replay.Imported(a.exporter, l, exported...)
	if err != nil {
		return nil, err
	}
	for path, data := range imported {
		files = append(files, adapters.File{Base: adapters.InHome, Path: path, Mode: 0o600, Data: data})
	}
	return files, a.resume()
}

// resume computes the cursors of the exports in another home from the archive alone, as
// a host does.
func (a *archive) resume() error {
	for _, f := range a.kept {
		if f.Kind != adapters.Snapshot {
			continue
		}
		cursor, err := a.exporter.Cursor(bytes.NewReader(f.data))
		if err != nil {
			return fmt.Errorf("cursor of %s: %w", f.Path, err)
		}
		f.cursor = cursor
	}
	return nil
}
