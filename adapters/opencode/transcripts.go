package opencode

import (
	"fmt"
	"path"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

const (
	// database is where the agent keeps all sessions of a home.
	database  = ".local/share/opencode/opencode.db"
	walSuffix = "-wal"
	// walID is the transcript id of the write-ahead log, which belongs to the
	// database and has no export of its own.
	walID = "main.wal"
)

// Transcripts finds the database of the home, and its log.
func (*Adapter) Transcripts(home adapters.Home, l adapters.Launch) ([]adapters.Transcript, error) {
	found, err := beside(home, database)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found, nil
}

// beside returns a database and its log, as far as they are there.
func beside(home adapters.Home, file string) ([]adapters.Transcript, error) {
	var found []adapters.Transcript
	for _, t := range []adapters.Transcript{
		{ID: event.Main, Path: file, Kind: adapters.Snapshot}, {ID: walID, Path: file + walSuffix, Kind: adapters.Snapshot},
	} {
		paths, err := home.Glob(escape(t.Path))
		if err != nil {
			return nil, fmt.Errorf("opencode: find transcripts: %w", err)
		}
		if len(paths) == 0 {
			break
		}
		found = append(found, t)
	}
	return found, nil
}

// escape makes a pattern that matches nothing but the path.
func escape(p string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(p)
}

// Identify finds what belongs to a database, and takes every other file for
// an export.
func (*Adapter) Identify(home adapters.Home, file string) ([]adapters.Transcript, error) {
	found, err := beside(home, strings.TrimSuffix(file, walSuffix))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 { // a log alone, which can't be read
		return []adapters.Transcript{{ID: event.Main, Path: file, Kind: adapters.Snapshot}}, nil
	}
	return found, nil
}

// Place is where the agent looks for its database.
func (*Adapter) Place(t adapters.Transcript, _ adapters.Launch) string {
	if t.ID == event.Main || t.ID == walID {
		return path.Dir(database) + "/" + path.Base(t.Path)
	}
	return t.Path
}
