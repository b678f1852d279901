package turn

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
)

// go test ./turn -rewrite writes the resulting plans and actions into testdata.
var rewrite = flag.Bool("rewrite", false, "write the plans and actions that come out into testdata")

// rewritten compares one file of an archive with the result, or replaces it.
func rewritten(t *testing.T, path string, ar *txtar.Archive, name, got string) {
	t.Helper()
	for i := range ar.Files {
		if ar.Files[i].Name != name {
			continue
		}
		if *rewrite {
			ar.Files[i].Data = []byte(got)
			require.NoError(t, os.WriteFile(path, txtar.Format(ar), 0o600))
			return
		}
		require.Equal(t, string(ar.Files[i].Data), got, "%s", path)
		return
	}
	require.Fail(t, "no file "+name, path)
}

func fileOf(t *testing.T, ar *txtar.Archive, name string) []byte {
	t.Helper()
	for _, f := range ar.Files {
		if f.Name == name {
			return f.Data
		}
	}
	require.Fail(t, "no file "+name)
	return nil
}

// TestPlans: each row of the table has a scenario that it decides.
func TestPlans(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/plans/*.txtar")
	require.NoError(t, err)
	shown := map[string]bool{}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(path)
			require.NoError(t, err)
			require.NotEmpty(t, strings.TrimSpace(string(ar.Comment)), "a description of what happened")
			var f Facts
			d := json.NewDecoder(bytes.NewReader(fileOf(t, ar, "facts")))
			d.DisallowUnknownFields()
			require.NoError(t, d.Decode(&f))
			plan := Decide(f)
			rewritten(t, path, ar, "plan", fmt.Sprintf("%s: %s\n", plan.Rule.Name, plan.Kind))
			shown[plan.Rule.Name] = true
		})
	}
	for _, r := range Rules {
		require.True(t, shown[r.Name], "rule %s has no scenario in testdata/plans", r.Name)
	}
}

// TestTurns: signals in, actions out.
func TestTurns(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/turns/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(path)
			require.NoError(t, err)
			require.NotEmpty(t, strings.TrimSpace(string(ar.Comment)), "a description of what happened")
			m := NewMachine(Config{}, "")
			require.NoError(t, json.Unmarshal(fileOf(t, ar, "machine"), m))
			var out strings.Builder
			for line := range strings.Lines(string(fileOf(t, ar, "signals"))) {
				s := signalOf(t, strings.TrimSpace(line))
				fmt.Fprintf(&out, "%s\n", typeName(s))
				for _, a := range m.Step(s) {
					fmt.Fprintf(&out, "  → %s %s\n", typeName(a), asJSON(t, a))
				}
			}
			rewritten(t, path, ar, "actions", out.String())
		})
	}
}

// signals are the signals of scenarios, by name.
var signals = []Signal{
	Record{}, Unreadable{}, Attached{}, Prompted{}, Tick{}, SpoolRead{}, InterruptRequested{}, Interrupting{}, Responded{}, PolicyChanged{}, WaitingTold{},
	SteerRequested{}, SteerRefused{}, Withheld{},
}

// signalOf parses a line "name {json}". Times are seconds after the scenario's start.
func signalOf(t *testing.T, line string) Signal {
	t.Helper()
	name, body, _ := strings.Cut(line, " ")
	for _, s := range signals {
		if typeName(s) != name {
			continue
		}
		v := reflect.New(reflect.TypeOf(s))
		d := json.NewDecoder(strings.NewReader(cmpOr(body, "{}")))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(v.Interface()), "%s", line)
		return v.Elem().Interface().(Signal)
	}
	require.Fail(t, "unknown signal", "%s", line)
	return nil
}

func cmpOr(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func typeName(v any) string { return reflect.TypeOf(v).Name() }

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}
