package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	sqliteschema "go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

// retention is how long Temporal keeps a closed workflow.
const retention = 72 * time.Hour

// openDatabase makes the database file with schema and namespace if it is
// missing, and returns how to open it.
func (s *stack) openDatabase() (*config.SQL, error) {
	file := s.dir.Path("temporal.db")
	sql := &config.SQL{
		PluginName:   sqlite.PluginName,
		DatabaseName: file,
		ConnectAttributes: map[string]string{
			"mode":  "rwc",
			"cache": "private",
			// Together they took a step of a workflow from 21 ms to 13 ms. NORMAL
			// survives the death of the process; a power loss may cost the last
			// transactions, but never the file.
			"journal_mode": "wal",
			"synchronous":  "1",
		},
	}
	if err := setUpSchema(file, sql); err != nil {
		return nil, err
	}
	ns, err := sqliteschema.NewNamespaceConfig(clusterName, namespace, false, searchAttributes())
	if err != nil {
		return nil, fmt.Errorf("describe namespace %s: %w", namespace, err)
	}
	ns.Detail.Config.Retention = durationpb.New(retention)
	if err := sqliteschema.CreateNamespaces(sql, ns); err != nil {
		return nil, fmt.Errorf("make namespace %s: %w", namespace, err)
	}
	return sql, nil
}

// setUpSchema writes the schema into a new file. It is many statements and no
// transaction, so a marker file shows a set-up that was interrupted, and the
// half-made file, which nothing has used yet, is made again.
func setUpSchema(file string, sql *config.SQL) error {
	marker := file + ".setup"
	_, half := os.Stat(marker)
	_, made := os.Stat(file)
	if made == nil && errors.Is(half, os.ErrNotExist) {
		return nil
	}
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		return fmt.Errorf("mark begin of schema: %w", err)
	}
	if err := removeDatabase(file); err != nil {
		return err
	}
	if err := sqliteschema.SetupSchema(sql); err != nil {
		return fmt.Errorf("set up schema: %w", err)
	}
	if err := os.Remove(marker); err != nil {
		return fmt.Errorf("mark end of schema: %w", err)
	}
	return nil
}

func removeDatabase(file string) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(file + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove half-made %s: %w", filepath.Base(file)+suffix, err)
		}
	}
	return nil
}
