package acp

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
)

func TestCommandLineWords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]commandLine{
		"opencode acp":                     {argv: []string{"opencode", "acp"}},
		"  a\t'b c'  \"d \\\" \\n\" e\\ f": {argv: []string{"a", "b c", `d " \n`, "e f"}},
		"A=1 B_2='x y' /p/q ''":            {env: []string{"A=1", "B_2=x y"}, argv: []string{"/p/q", ""}},
		"1A=no x":                          {argv: []string{"1A=no", "x"}},
		`x 'it'\''s' y=z`:                  {argv: []string{"x", "it's", "y=z"}},
	} {
		got, err := readCommandLine(line)
		require.NoError(t, err, line)
		require.ElementsMatch(t, want.env, got.env, line)
		require.Equal(t, want.argv, got.argv, line)
		again, err := readCommandLine(got.String())
		require.NoError(t, err)
		require.Equal(t, got.argv, again.argv, got.String())
		require.Equal(t, got.String(), again.String())
	}
	for _, line := range []string{"", "A=1", "x 'y", `"`, "''"} {
		_, err := readCommandLine(line)
		require.Error(t, err, "%q", line)
	}
}

func FuzzCommandLine(f *testing.F) {
	f.Add("A='b c' d \"e\\\"\" \\f")
	f.Fuzz(func(t *testing.T, line string) {
		c, err := readCommandLine(line)
		if err != nil {
			return
		}
		again, err := readCommandLine(c.String())
		require.NoError(t, err)
		require.Equal(t, c.argv, again.argv)
		require.Len(t, again.env, len(c.env))
	})
}

func settings(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

// Every caller that needs the command line has it in one value.
func TestLocateGivesTheWholeCommandLine(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a folder")
	require.NoError(t, os.Mkdir(dir, 0o700))
	program := filepath.Join(dir, "agent")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700))
	a := New()
	found, err := a.Locate(settings(map[string]string{
		"PATH": dir, ProgramVariable: "KEY='a b' agent acp --port 0", FilesVariable: ".x/*.db:.y/z",
	}))
	require.NoError(t, err)
	require.Equal(t, "SOJOURN_ACP_FILES=.x/*.db:.y/z KEY='a b' '"+program+"' acp --port 0", found)
	require.Equal(t, program, a.ProgramFile(found))
	cmd, err := a.Command(adapters.Launch{Program: found, Runner: "/r/unner", Home: "/h", Workspace: "/w"})
	require.NoError(t, err)
	require.Equal(t, []string{"/r/unner", "record", "--file", "/h/.sojourn/acp/session.jsonl", "--", program, "acp", "--port", "0"}, cmd.Argv)
	require.Equal(t, map[string]string{"HOME": "/h", "NO_COLOR": "1", "KEY": "a b"}, cmd.Env)
	require.Equal(t, "/w", cmd.Dir)
	files, err := a.ProfileFiles(adapters.Profile{}, adapters.Launch{Program: found})
	require.NoError(t, err)
	require.Equal(t, []adapters.File{{Base: adapters.InHome, Path: globsFile, Mode: 0o600, Data: []byte(".x/*.db:.y/z\n")}}, files)
}

func TestLocateSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	for said, values := range map[string]map[string]string{
		`set SOJOURN_ACP to the command line`: {},
		"install agent":                       {ProgramVariable: "agent acp", "PATH": "/nowhere"},
		"/no/such/agent, which is no program": {ProgramVariable: "/no/such/agent acp"},
		"a quote is not closed":               {ProgramVariable: "agent 'acp"},
		"glob \"../x\"":                       {ProgramVariable: "/bin/sh", FilesVariable: "../x"},
		"glob \"/etc/*\"":                     {ProgramVariable: "/bin/sh", FilesVariable: "a:/etc/*"},
	} {
		_, err := New().Locate(settings(values))
		require.ErrorIs(t, err, adapters.ErrNotInstalled)
		require.ErrorContains(t, err, said)
	}
}

func TestCommandWants(t *testing.T) {
	t.Parallel()
	whole := adapters.Launch{Program: "/p", Runner: "/r", Home: "/h"}
	for _, spoil := range []func(*adapters.Launch){
		func(l *adapters.Launch) { l.Program = "" },
		func(l *adapters.Launch) { l.Program = "'" },
		func(l *adapters.Launch) { l.Runner = "" },
		func(l *adapters.Launch) { l.Home = "" },
		func(l *adapters.Launch) { l.Permission = "maybe" },
	} {
		l := whole
		spoil(&l)
		_, err := New().Command(l)
		require.Error(t, err)
	}
}

// A profile that the program would not follow is refused, with the fields'
// names.
func TestProfileWithoutAPlaceIsRefused(t *testing.T) {
	t.Parallel()
	_, err := New().ProfileFiles(adapters.Profile{
		Instructions: "x", Rules: map[string]string{"a": "b"}, Workspace: map[string]string{"AGENTS.md": "y"},
	}, adapters.Launch{})
	require.ErrorIs(t, err, adapters.ErrUnsupported)
	require.ErrorContains(t, err, "instructions, rules")
	files, err := New().ProfileFiles(adapters.Profile{Workspace: map[string]string{"AGENTS.md": "y"}}, adapters.Launch{})
	require.NoError(t, err)
	require.Equal(t, []adapters.File{{Base: adapters.InWorkspace, Path: "AGENTS.md", Mode: 0o644, Data: []byte("y")}}, files)
	_, err = New().ProfileFiles(adapters.Profile{Workspace: map[string]string{"../x": "y"}}, adapters.Launch{})
	require.Error(t, err)
}
