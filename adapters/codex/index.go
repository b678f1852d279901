package codex

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/sojourn-run/sojourn/adapters"
)

// The program's index of its rollouts, a database that it makes again if there is none, and
// where one goes that can't be used.
const (
	indexPattern = configDir + "/state_*.sqlite"
	setAside     = configDir + "/interrupted"
)

// brokenIndex returns the moves that set aside an index whose making a kill has interrupted,
// and a note. The index says "running" then. For the next 15 minutes each process waits half a
// minute for the one that is gone, and exits (github.com/openai/codex/issues/41614). Nothing
// is lost with it: in a new sandbox there is none either.
func brokenIndex(home adapters.Home) (moves []adapters.Move, note string, err error) {
	live, ok := home.(adapters.Databases)
	if !ok {
		return nil, "", nil
	}
	found, err := home.Glob(indexPattern)
	if err != nil {
		return nil, "", err
	}
	for _, file := range found {
		running, err := interrupted(live, file)
		if err != nil {
			note = fmt.Sprintf("whether %s was being made when the agent ended is unknown: %v", file, err)
		}
		if !running {
			continue
		}
		parts, err := home.Glob(file + "*")
		if err != nil {
			return nil, "", err
		}
		for _, part := range parts {
			moves = append(moves, adapters.Move{From: part, To: path.Join(setAside, path.Base(part))})
		}
		note = "the agent was killed while it made its index of sessions, which it makes again"
	}
	return moves, note, nil
}

// interrupted reports whether an index is being made, by a process that must have ended.
func interrupted(live adapters.Databases, file string) (running bool, err error) {
	db, err := live.OpenDatabase(file)
	if errors.Is(err, errors.ErrUnsupported) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, rows, err := db.Query("SELECT status FROM backfill_state")
	if err != nil && strings.Contains(err.Error(), "no such table") {
		return false, nil // of a version that has none
	}
	if err != nil {
		return false, err
	}
	for row, err := range rows {
		if err != nil {
			return false, err
		}
		running = running || row[0] == "running"
	}
	return running, nil
}
