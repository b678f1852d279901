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
	"github.com/sojourn-run/sojourn/event/traffic"
	"github.com/sojourn-run/sojourn/test/recordings"
)

// timed is the suffix of the name of the file with a run's records.
const timed = "timed.jsonl"

// Exists reports whether a file or folder exists.
func Exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// File names the files of one run of an agent.
type File struct {
	// Dir is the recording, Prefix the prefix of the names of the run's files: "" for
	// the first run of most recordings.
	Dir, Prefix string
}

// Files returns all runs of an agent, by recording, the first run of a recording before
// those with a prefix.
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

// Name returns the run's name: recording/prefix.
func (f File) Name() string { return filepath.Base(f.Dir) + "/" + f.Prefix }

// Path returns the path of one of the run's files.
func (f File) Path(name string) string { return filepath.Join(f.Dir, f.Prefix+name) }

// Records reads the run's records.
func (f File) Records(t testing.TB) []traffic.Record { return ReadRecords(t, f.Path(timed)) }

// Command returns the command line of the run.
func (f File) Command(t testing.TB) string { return strings.TrimSpace(ReadFile(t, f.Path("cmd.txt"))) }

// LastArgument returns the last word of a command line, and whether it was quoted.
func LastArgument(command string) (text string, quoted bool) {
	command, quoted = strings.CutSuffix(command, `"`)
	if quoted {
		return command[strings.LastIndex(command, `"`)+1:], true
	}
	return command[strings.LastIndex(command, " ")+1:], false
}

// ReadFile reads a text file.
func ReadFile(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(data)
}

// ReadRecords reads a file of records, or of plain output.
func ReadRecords(t testing.TB, file string) []traffic.Record {
	t.Helper()
	var out []traffic.Record
	for r, err := range jsonl.DecodeRecords(strings.NewReader(ReadFile(t, file)), jsonl.RecordOptions{Plain: true}) {
		require.NoError(t, err)
		out = append(out, r)
	}
	return out
}

// Run is one process of an agent in a recording. Adapters embed it in their own type
// for a run.
type Run struct {
	// Name is recording/prefix.
	Name string
	// Prompt is the prompt on the command line. Default: none.
	Prompt  string
	Records []traffic.Record
	// End is the record of the process's end, for a [Run.Spool]. Default: "exit",
	// without a code.
	End string
}

func (r Run) run() Run { return r }

// RunsOf converts an adapter's own runs to plain ones.
func RunsOf[R interface{ run() Run }](own []R) []Run {
	var out []Run
	for _, r := range own {
		out = append(out, r.run())
	}
	return out
}

// Spool returns the records of a run, with its prompt and its end.
func (r Run) Spool() []traffic.Record {
	var out []traffic.Record
	if r.Prompt != "" {
		out = append(out, traffic.Record{Dir: event.DirIn, Line: adapters.PromptLine(r.Prompt)})
	}
	end := r.End
	if end == "" {
		end = "exit"
	}
	out = append(out, r.Records...)
	return append(out, traffic.Record{Dir: event.DirSig, Line: end})
}

// Spool returns the records of several runs, one after the other, as a runner would
// have stored them.
func Spool(runs []Run) []traffic.Record {
	var out []traffic.Record
	for _, r := range runs {
		out = append(out, r.Spool()...)
	}
	return out
}

// Transcript is the native files of a session in a recording. Adapters embed it in
// their own type.
type Transcript struct {
	Name    string
	Sources []adapters.Source
}

func (tr Transcript) transcript() Transcript { return tr }

// TranscriptsOf converts an adapter's own transcripts to plain ones.
func TranscriptsOf[T interface{ transcript() Transcript }](own []T) []Transcript {
	var out []Transcript
	for _, tr := range own {
		out = append(out, tr.transcript())
	}
	return out
}
