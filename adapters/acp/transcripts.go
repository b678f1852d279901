package acp

import (
	"fmt"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

// Paths in the home.
const (
	// recordFile has the exchange; the recorder's other files are beside it.
	recordFile = ".sojourn/acp/session.jsonl"
	headFile   = recordFile + ".head"
	// globsFile has the value of SOJOURN_ACP_FILES, for readers that have only the
	// home.
	globsFile = ".sojourn/acp/files"
	// filesID is the transcript that represents all of the program's own files.
	filesID = "main.files"
)

// Transcripts returns the records of the session, and the program's own files as
// one snapshot if a setting names them.
func (*Adapter) Transcripts(home adapters.Home, _ adapters.Launch) ([]adapters.Transcript, error) {
	has, err := exists(home, recordFile)
	if err != nil || !has {
		return nil, err
	}
	found := []adapters.Transcript{{ID: event.Main, Path: recordFile, Kind: adapters.Append}}
	if has, err = exists(home, globsFile); has {
		found = append(found, adapters.Transcript{ID: filesID, Path: globsFile, Kind: adapters.Snapshot})
	}
	return found, err
}

func exists(home adapters.Home, name string) (bool, error) {
	found, err := home.Glob(name)
	if err != nil {
		return false, fmt.Errorf("acp: find transcripts: %w", err)
	}
	return len(found) > 0, nil
}

// Place returns the same path: nothing is filed by workspace or host.
func (*Adapter) Place(t adapters.Transcript, _ adapters.Launch) string { return t.Path }
