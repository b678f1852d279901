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
	"github.com/sojourn-run/sojourn/event/traffic"
)

// Prepare continues with the last session that has a prompt. The records of the
// last process's opening usually name it; all records are read if there is no
// such file, as after a restore, or if that process ended before its opening was
// complete.
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

// lastSession returns the last session in a file's records that had a prompt, and
// whether one was opened at all. A missing file has none.
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
	// asked is the id of the request for a new session.
	asked string
}

// chatter is in most of the agent's records, and in none of an opening. A prompt may have it.
var chatter, fromAgent = []byte(`session/update`), []byte(`"dir":"out"`)

func (s *sessions) line(line []byte) {
	if head := line[:min(len(line), 256)]; bytes.Contains(head, chatter) && bytes.Contains(head, fromAgent) {
		return
	}
	var r traffic.Record
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ SessionID string }
		Result struct{ SessionID string }
	}
	if json.Unmarshal(line, &r) != nil || json.Unmarshal([]byte(r.Line), &m) != nil {
		return // Parse reports what is wrong with it
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
