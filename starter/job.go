package starter

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sojourn-run/sojourn/jobs"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/starter/internal/render"
)

// runFlags are the flags of a job beside those of its session.
type runFlags struct {
	optionFlags

	jobFlags

	id, out string
	timeout time.Duration
	noWait  bool
}

// jobFlags are those that a job has also in a batch.
type jobFlags struct {
	schema, check    string
	files, artifacts []string
	repairs          int
	checkTimeout     time.Duration
}

func (f *jobFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.schema, "schema", "", "the answer has to match the JSON schema in `FILE`")
	fl.IntVar(&f.repairs, "repairs", jobs.DefaultRepairs, "ask at most `N` times for another answer that matches")
	fl.StringArrayVar(&f.files, "file", nil, "have `PATH[=NAME]`, a file of this machine, in the workspace (repeatable)")
	fl.StringArrayVar(&f.artifacts, "artifact", nil, "name the files that match `PATTERN` in the result, such as 'out/**/*.md' (repeatable)")
	fl.StringVar(&f.check, "check", "", "run `COMMAND` in the workspace behind the answer; the job fails if it exits with another code than 0")
	fl.DurationVar(&f.checkTimeout, "check-timeout", jobs.DefaultCheckTimeout, "end the check after `TIME`")
}

func (c *cli) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run TEXT",
		Short: "Run one job: ask an agent once, and print its answer",
		Long: `Run one job: a session of its own with one agent, which is closed when the answer is there. With --schema the answer is a JSON value
that matches, and the agent is asked again if it does not. TEXT - is standard input. A job goes on without this command, and the same
--id finds it again.`,
		Example: "  sojourn run --agent claude --file report.csv --schema totals.json \"Add up the columns of report.csv\"\n  sojourn run --agent codex --artifact 'out/*.md' --out . \"Write one page for each module into out/\"",
		Args:    wants,
		RunE: func(cmd *cobra.Command, args []string) error {
			return within(cmd.Context(), f.timeout, func(ctx context.Context) error { return c.run(ctx, args[0], &f) })
		},
	}
	f.optionFlags.register(c, cmd)
	fl := cmd.Flags()
	f.jobFlags.register(cmd)
	fl.StringVar(&f.id, "id", "", "the job's `ID`, the id of its workflow (default: a new one)")
	fl.StringVar(&f.out, "out", "", "write those files into the folder `DIR`")
	fl.BoolVar(&f.noWait, "no-wait", false, "print the job's id and don't wait")
	timeoutFlag(cmd, &f.timeout)
	return cmd
}

func (c *cli) run(ctx context.Context, text string, f *runFlags) error {
	if text == "-" {
		data, err := c.wholeStdin()
		if err != nil {
			return fmt.Errorf("read the prompt from standard input: %w", err)
		}
		text = strings.TrimRight(string(data), "\r\n")
	}
	in, err := c.jobInput(ctx, text, f.id, &f.optionFlags, &f.jobFlags)
	if err != nil {
		return err
	}
	if f.out != "" && len(f.artifacts) == 0 {
		in.Artifacts = []string{"**"}
	}
	if err := in.Validate(); err != nil {
		return err
	}
	needs, err := f.makeOut()
	if err != nil {
		return err
	}
	sc, err := c.client(ctx, needs)
	if err != nil {
		return err
	}
	t, err := c.temporal(ctx)
	if err != nil {
		return err
	}
	job, err := jobs.Start(ctx, t, f.id, in)
	if err != nil {
		return err
	}
	if f.noWait {
		return c.printJob(job.ID())
	}
	stop := c.patience("job %s is at work; Ctrl-C leaves it so", job.ID())
	out, err := job.Wait(ctx)
	stop()
	if err != nil && ctx.Err() != nil {
		return leftAt(ctx, fmt.Sprintf("sojourn run --id %s with the same arguments waits again", job.ID()), "; job %s goes on", job.ID())
	}
	var fetched error
	if f.out != "" {
		fetched = fetchArtifacts(ctx, sc, out, f.out)
	}
	printed := c.printJobResult(out, err)
	return cmp.Or(jobFailed(err), fetched, printed)
}

// makeOut makes the folder for the job's files, before the job costs anything, and returns
// what the job needs.
func (f *runFlags) makeOut() (need, error) {
	if f.out == "" {
		return needTemporal, nil
	}
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return 0, usage("--out wants a folder that can be made, or is there", "--out: %s", plainPathError(err))
	}
	return needTemporal | needArchiveNow, nil
}

func (c *cli) printJob(id string) error {
	if c.json {
		return c.printJSON(map[string]string{"jobId": id})
	}
	return writeLine(c.stdout, id)
}

// printJobResult prints what a job has made; of one that failed only where that is asked for
// as JSON, and nothing of one whose end is unknown or has no result.
func (c *cli) printJobResult(out jobs.Result, failed error) error {
	switch {
	case failed != nil && out.SessionID == "":
		return nil
	case c.json:
		return c.printJSON(out)
	case failed != nil:
		return nil
	case len(out.Value) > 0:
		return writeLine(c.stdout, string(out.Value))
	}
	err := writeLine(c.stdout, render.Clean(out.Response))
	if out.Truncated {
		c.warn("the answer is cut; sojourn show %s has all of it", out.SessionID)
	}
	return err
}

// jobFailed returns the error of a job that failed, in this program's form.
func jobFailed(err error) error {
	f, is := errors.AsType[*jobs.Failure](err)
	if !is {
		return err
	}
	said := &failure{line: "the job failed: " + f.Reason, code: exitFailed}
	if f.Type == jobs.TypeInterrupted || f.Type == jobs.TypeCancelled {
		said.code = exitInterrupted
	}
	if id := f.Result.SessionID; id != "" {
		said.hint = "sojourn show " + id + " shows how far it came"
	}
	return said
}

// jobInput returns the input of a job, not validated.
func (c *cli) jobInput(ctx context.Context, text, id string, of *optionFlags, f *jobFlags) (jobs.Input, error) {
	o, err := c.options(ctx, id, of)
	if err != nil {
		return jobs.Input{}, err
	}
	in := jobs.Input{Options: o, Prompt: text, Artifacts: f.artifacts, Repairs: f.repairs, Check: f.check}
	if f.check != "" {
		in.CheckTimeoutMS = f.checkTimeout.Milliseconds()
	}
	if f.repairs == 0 {
		in.Repairs = -1
	}
	if f.schema != "" {
		if in.Schema, err = os.ReadFile(f.schema); err != nil {
			return in, usage("--schema wants a file with a JSON schema", "--schema: %s", plainPathError(err))
		}
		if !json.Valid(in.Schema) {
			return in, usage("--schema wants a file with a JSON schema", "--schema: %s is no JSON", f.schema)
		}
	}
	for _, given := range f.files {
		file, err := jobFile(given)
		if err != nil {
			return in, err
		}
		in.Files = append(in.Files, file)
	}
	return in, nil
}

// jobFile reads a file for a job's workspace, given as PATH or PATH=NAME.
func jobFile(given string) (jobs.File, error) {
	name, as, renamed := strings.Cut(given, "=")
	if !renamed {
		as = filepath.ToSlash(filepath.Clean(name))
		if !filepath.IsLocal(name) {
			as = filepath.Base(name)
		}
	}
	info, err := os.Stat(name)
	if err == nil && info.Size() > jobs.MaxFileBytes {
		return jobs.File{}, usage("larger files can be put where the agent can fetch them", "--file: %s is %d bytes, at most %d in all", name, info.Size(), jobs.MaxFileBytes)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(name)
	}
	if err != nil {
		return jobs.File{}, usage("--file wants a file of this machine, as PATH or PATH=NAME", "--file: %s", plainPathError(err))
	}
	f := jobs.File{Path: as, Executable: info.Mode()&0o100 != 0}
	if utf8.Valid(data) {
		f.Text = string(data)
	} else {
		f.Base64 = base64.StdEncoding.EncodeToString(data)
	}
	return f, nil
}

// fetchArtifacts writes a job's files below a folder.
func fetchArtifacts(ctx context.Context, sc *session.Client, out jobs.Result, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("write the files into %s: %w", dir, err)
	}
	defer root.Close()
	if len(out.Artifacts) == 0 {
		return nil
	}
	files, err := sc.Files(ctx, out.SessionID)
	if err != nil {
		return fmt.Errorf("write the files into %s: %w", dir, err)
	}
	modes := map[string]fs.FileMode{}
	for _, f := range files {
		modes[f.Path] = f.Mode.Perm()
	}
	for _, a := range out.Artifacts {
		if err := fetchArtifact(ctx, sc, out.SessionID, a.Path, modes[a.Path], root); err != nil {
			return fmt.Errorf("write %s into %s: %w", a.Path, dir, err)
		}
	}
	return nil
}

// fetchArtifact writes a file with its archived mode, as far as the umask allows.
func fetchArtifact(ctx context.Context, sc *session.Client, sessionID, name string, mode fs.FileMode, root *os.Root) (err error) {
	from, err := sc.OpenFile(ctx, sessionID, name)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	to, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
