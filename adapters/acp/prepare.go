package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// Prepare continues with the last session that has a prompt. The
// records of the last process's opening mostly name it; all records are read
// where there is no such file, as after a restore, or where that process did not
// come so far.
func (*Adapter) Prepare(home adapters.Home, _ adapters.Launch) (adapters.Preparation, error) {
	for _, name := range []string{headFile, recordFile} {
		session, opened, err := lastSession(home, name)
		if err != nil {
			return adapters.Preparation{}, fmt.Errorf("acp: prepare: %w", err)
		}
		if session != "" || opened && name == recordFile {
			return adapters.Preparation{NativeID: session}, nil
		}
	}
	return adapters.Preparation{}, nil
}

// lastSession reads which session a file's records were spoken in last, and
// whether one was opened at all. A file that is not there has none.
func lastSession(home adapters.Home, name string) (session string, opened bool, err error) {
	in, err := home.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	defer in.Close()
	var s sessions
	lines := bufio.NewReaderSize(in, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		s.line(line)
		if errors.Is(err, io.EOF) {
			return s.spoken, s.open != "", nil
		}
		if err != nil {
			return "", false, fmt.Errorf("read %s: %w", name, err)
		}
	}
}

// sessions follows the openings in a series of records.
type sessions struct {
	// open is the session that is open, spoken the last one with a prompt.
	open, spoken string
	// asked is the request for a new session.
	asked string
}

// chatter is what most records have, and none of an opening.
var chatter = []byte(`session/update`)

func (s *sessions) line(line []byte) {
	if bytes.Contains(line[:min(len(line), 256)], chatter) {
		return
	}
	var r event.Record
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ SessionID string }
		Result struct{ SessionID string }
	}
	if json.Unmarshal(line, &r) != nil || json.Unmarshal([]byte(r.Line), &m) != nil {
		return // Parse says what is wrong with it
	}
	switch {
	case r.Dir == event.DirIn && m.Method == "session/new":
		s.asked = string(m.ID)
	case r.Dir == event.DirIn && m.Method == "session/prompt":
		s.spoken = m.Params.SessionID
	case r.Dir == event.DirIn && (m.Method == "session/load" || m.Method == "session/resume"):
		s.open = m.Params.SessionID
		s.spoken = s.open
	case r.Dir == event.DirOut && s.asked != "" && string(m.ID) == s.asked:
		s.open, s.asked = m.Result.SessionID, ""
	}
}
