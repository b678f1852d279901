package replay

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/adapters"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/jsonl"
	"github.com/sojourn-run/sojourn/test/recordings"
)

// timed ends the name of the file that holds a run's records.
const timed = "timed.jsonl"

// Exists says whether there is such a file or folder.
func Exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// File names the files of one run of an agent.
type File struct {
	// Dir is the recording, Prefix what the names of the run's files begin with:
	// "" for the first run of most recordings.
	Dir, Prefix string
}

// Files are those of all runs of an agent, by recording, with a recording's
// first run before those that have a prefix.
func Files(t testing.TB, agent string) []File {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(recordings.Dir(t, agent), "*", "*"+timed))
	require.NoError(t, err)
	var out []File
	for _, file := range found {
		out = append(out, File{Dir: filepath.Dir(file), Prefix: strings.TrimSuffix(filepath.Base(file), timed)})
	}
	slices.SortFunc(out, func(a, b File) int {
		return slices.Compare([]string{a.Dir, a.Prefix}, []string{b.Dir, b.Prefix})
	})
	return out
}

// Name is the run's: recording/prefix.
func (f File) Name() string { return filepath.Base(f.Dir) + "/" + f.Prefix }

// Path is that of one of the run's files.
func (f File) Path(name string) string { return filepath.Join(f.Dir, f.Prefix+name) }

// Records reads the run's.
func (f File) Records(t testing.TB) []event.Record { return ReadRecords(t, f.Path(timed)) }

// Command is the command line of the run.
func (f File) Command(t testing.TB) string { return strings.TrimSpace(ReadFile(t, f.Path("cmd.txt"))) }

// LastArgument is the last word of a command line, and whether it was quoted.
func LastArgument(command string) (text string, quoted bool) {
	command, quoted = strings.CutSuffix(command, `"`)
	if quoted {
		return command[strings.LastIndex(command, `"`)+1:], true
	}
	return command[strings.LastIndex(command, " ")+1:], false
}

// ReadFile reads a text.
func ReadFile(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(data)
}

// ReadRecords reads a file of records, or of what was printed.
func ReadRecords(t testing.TB, file string) []event.Record {
	t.Helper()
	var out []event.Record
	for r, err := range jsonl.DecodeRecords(strings.NewReader(ReadFile(t, file)), jsonl.RecordOptions{Plain: true}) {
		require.NoError(t, err)
		out = append(out, r)
	}
	return out
}

// Run is one process of an agent in a recording. Adapters embed it in what else
// they know of a run.
type Run struct {
	// Name is recording/prefix.
	Name string
	// Prompt was given on the command line. Default: none.
	Prompt  string
	Records []event.Record
	// End is how the process ends, for a [Run.Spool]. Default: "exit", which says
	// nothing of how.
	End string
}

func (r Run) run() Run { return r }

// RunsOf takes what an adapter knows of its runs for plain ones.
func RunsOf[R interface{ run() Run }](own []R) []Run {
	var out []Run
	for _, r := range own {
		out = append(out, r.run())
	}
	return out
}

// Spool is what a run says, with its prompt and its end.
func (r Run) Spool() []event.Record {
	var out []event.Record
	if r.Prompt != "" {
		out = append(out, event.Record{Dir: event.DirIn, Line: adapters.PromptLine(r.Prompt)})
	}
	end := r.End
	if end == "" {
		end = "exit"
	}
	out = append(out, r.Records...)
	return append(out, event.Record{Dir: event.DirSig, Line: end})
}

// Spool is what several runs say, one after the other, as a runner that watches
// the session would have kept it.
func Spool(runs []Run) []event.Record {
	var out []event.Record
	for _, r := range runs {
		out = append(out, r.Spool()...)
	}
	return out
}

// Transcript is the native files of a session that a recording kept. Adapters
// embed it in what else they know of it.
type Transcript struct {
	Name    string
	Sources []adapters.Source
}

func (tr Transcript) transcript() Transcript { return tr }

// TranscriptsOf takes what an adapter knows of its transcripts for plain ones.
func TranscriptsOf[T interface{ transcript() Transcript }](own []T) []Transcript {
	var out []Transcript
	for _, tr := range own {
		out = append(out, tr.transcript())
	}
	return out
}
