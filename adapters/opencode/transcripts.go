package opencode

import (
	"fmt"
	"path"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
)

const (
	// database has all sessions of a home.
	database  = ".local/share/opencode/opencode.db"
	walSuffix = "-wal"
	// walID is the transcript id of the write-ahead log, which is part of the
	// database and is not exported separately.
	walID = "main.wal"
)

// Transcripts returns the database of the home, and its log.
func (*Adapter) Transcripts(home adapters.Home, l adapters.Launch) ([]adapters.Transcript, error) {
	found, err := beside(home, database)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found, nil
}

// beside returns a database and its log, as far as they exist.
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

// escape returns a pattern that matches only the path.
func escape(p string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(p)
}

// Identify returns a database with its log, and takes every other file as an
// export.
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

// Place returns the path of the agent's database.
func (*Adapter) Place(t adapters.Transcript, _ adapters.Launch) string {
	if t.ID == event.Main || t.ID == walID {
		return path.Dir(database) + "/" + path.Base(t.Path)
	}
	return t.Path
}
