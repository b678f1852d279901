package opencode

import (
	"errors"
	"io"
	"slices"

	"github.com/sojourn-run/sojourn/adapters"
)

// Prepare continues with the native session that is in the home: the one of the
// launch, or the only one of a home that came from another session. What a kill
// has left open is repaired when it is read; the agent itself informs the model
// that it was interrupted. A database that can't be read is left to the agent,
// which reports what is wrong with it.
func (a *Adapter) Prepare(home adapters.Home, l adapters.Launch) (adapters.Preparation, error) {
	found, err := a.Transcripts(home, l)
	if err != nil || len(found) == 0 {
		return adapters.Preparation{}, err
	}
	roots := rootsIn(home)
	if len(roots) == 1 && !slices.Contains(roots, l.NativeID) {
		return adapters.Preparation{NativeID: roots[0]}, nil
	}
	return adapters.Preparation{NativeID: l.NativeID}, nil
}

// rootsIn returns the sessions of a home's database without a parent.
func rootsIn(home adapters.Home) []string {
	if db, err := openLive(home, database); err == nil {
		roots, err := rootsOf(db)
		if errors.Join(err, db.Close()) == nil {
			return roots
		}
	}
	s, err := copyDatabase(
		func() (io.ReadCloser, error) { return home.Open(database) },
		func() (io.ReadCloser, error) { return home.Open(database + walSuffix) })
	if err != nil {
		return nil
	}
	defer s.close()
	roots, err := rootsOf(s)
	if err != nil {
		return nil
	}
	return roots
}

func rootsOf(db queryer) (roots []string, err error) {
	_, rows, err := db.Query("SELECT id FROM session WHERE parent_id IS NULL ORDER BY rowid")
	if err != nil {
		return nil, err
	}
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		if id, ok := row[0].(string); ok {
			roots = append(roots, id)
		}
	}
	return roots, nil
}

// variables returns what the agent's program reads of its environment.
func variables() []adapters.Variable {
	return []adapters.Variable{
		{Name: "ANTHROPIC_API_KEY", About: "key for models named anthropic/…"},
		{Name: "ANTHROPIC_BASE_URL", About: "where their API is, written to the agent's settings"},
		{Name: "OPENAI_API_KEY", About: "key for models named openai/…"},
		{Name: "OPENAI_BASE_URL", About: "where their API is, written to the agent's settings"},
		{Name: "GEMINI_API_KEY", About: "key for models named google/…"},
		{Name: "GOOGLE_GEMINI_BASE_URL", About: "where their API is, written to the agent's settings"},
		{Name: "OPENCODE_CONFIG_CONTENT", About: "the agent's settings as JSON, for any other provider; it goes before what Sojourn writes"},
	}
}
