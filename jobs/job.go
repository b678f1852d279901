package jobs

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/contract"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
)

// Type is the name under which the workflow of a job is registered, on session.TaskQueue.
const Type = "AgentJob"

// Types of the application errors with which a job fails, besides session.TypeInvalid and the
// code with which its agent's turn failed, such as session.TypeAgentFailed, TypeLimit or
// TypeNoProgress.
const (
	// TypeMismatch: the answer does not match the schema, after all repairs.
	TypeMismatch = "SchemaMismatch"
	// TypeCheckFailed: the check command has ended with another code than 0.
	TypeCheckFailed = "CheckFailed"
	// TypeUnchecked: the check command could not be run, since the sandbox was gone.
	TypeUnchecked = "Unchecked"
	// TypeInterrupted: the agent was interrupted.
	TypeInterrupted = "Interrupted"
	// TypeSessionEnded: the session was closed or terminated before it had answered.
	TypeSessionEnded = "SessionEnded"
	// TypeTooLarge: the value or the list of artifacts is over MaxResultBytes. The session's
	// conversation and files in the archive have all of it.
	TypeTooLarge = "ResultTooLarge"
)

// Types of a Failure that are no application error's.
const (
	// TypeCancelled: the job was cancelled. Its workflow is a cancelled one, with the result so
	// far as the detail.
	TypeCancelled = "Cancelled"
	// TypeEnded: the workflow was ended from outside, by an operator or a timeout.
	TypeEnded = "Ended"
)

// Limits of a job's input and result.
const (
	// DefaultRepairs is how often an agent is asked to repair an answer.
	DefaultRepairs = 2
	// MaxRepairs bounds Input.Repairs.
	MaxRepairs = 10
	// MaxFiles and MaxFileBytes bound the input files: they are in the workflow's history, or
	// beside it.
	MaxFiles     = 1000
	MaxFileBytes = 1 << 20
	// MaxSchemaBytes bounds the schema.
	MaxSchemaBytes = 64 << 10
	// MaxResultBytes bounds each of a result's response, value and list of artifacts, as JSON:
	// together they are a payload that Temporal takes.
	MaxResultBytes = 256 << 10
	// DefaultCheckTimeout is how long the check command may take, MaxCheckTimeout bounds
	// Input.CheckTimeoutMS.
	DefaultCheckTimeout, MaxCheckTimeout = 10 * time.Minute, 24 * time.Hour
)

// Input is what a job has to do.
type Input struct {
	// Options are those of the job's session. Agent is required.
	Options session.Options `json:"options"`
	// Prompt is what the agent is asked. It may be empty only if there are Parts.
	Prompt string `json:"prompt"`
	// Parts are images and further text, behind the prompt.
	Parts []event.Part `json:"parts,omitempty"`
	// Files are in the workspace before the agent starts. With Options.Workspace there can
	// be none.
	Files []File `json:"files,omitempty"`
	// Schema is a JSON schema (draft 2020-12) that the answer has to match. Default: the
	// answer is any text.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Repairs is how often the agent is asked for another answer if one does not match.
	// Default: DefaultRepairs; less than 0 is none.
	Repairs int `json:"repairs,omitempty"`
	// Artifacts are the files of the workspace that the result names: paths, or patterns as
	// in path.Match, where ** stands for any number of folders. With Options.Workspace there
	// can be none. Default: none.
	Artifacts []string `json:"artifacts,omitempty"`
	// Check is a command for sh that runs in the workspace behind the answer, isolated like the
	// agent, without input. If it ends with another code than 0 the job fails with
	// TypeCheckFailed and the end of what it wrote. Default: the answer is not checked.
	Check string `json:"check,omitempty"`
	// CheckTimeoutMS is how long it may take, in milliseconds. Default: DefaultCheckTimeout.
	CheckTimeoutMS int64 `json:"checkTimeoutMs,omitempty"`
	// SessionID is the session's id, which no session has had. Default: one made of the
	// workflow's. A job that is run more than once, by a batch or a schedule, has none.
	SessionID string `json:"sessionId,omitempty"`
}

// File is a file of the workspace, with its content in one of two ways.
type File struct {
	// Path is relative, with forward slashes.
	Path   string `json:"path"`
	Text   string `json:"text,omitempty"`
	Base64 string `json:"base64,omitempty"`
	// Executable files are run by tools.
	Executable bool `json:"executable,omitempty"`
}

// Data returns the file's content.
func (f File) Data() ([]byte, error) {
	if f.Base64 == "" {
		return []byte(f.Text), nil
	}
	return base64.StdEncoding.DecodeString(f.Base64)
}

// Result is what a job has made.
type Result struct {
	// SessionID names the session, whose conversation and files are in the archive.
	SessionID string `json:"sessionId"`
	// Response is the agent's last text, and Value what the schema matched in it.
	Response string          `json:"response"`
	Value    json.RawMessage `json:"value,omitempty"`
	// Truncated: the response was over MaxResultBytes, and is its beginning. The session's
	// conversation has all of it.
	Truncated bool `json:"truncated,omitempty"`
	// Mismatch is why the last answer did not match the schema.
	Mismatch string `json:"mismatch,omitempty"`
	// Repairs is how often the agent was asked for another answer.
	Repairs int         `json:"repairs,omitempty"`
	Usage   event.Usage `json:"usage"`
	// CostUSD is nil if it is unknown.
	CostUSD *float64 `json:"costUSD,omitempty"`
	// Artifacts are the files that were asked for, in order. Client.OpenFile of the session
	// reads them.
	Artifacts []Artifact `json:"artifacts,omitempty"`
}

// Artifact is a file that a job has made.
type Artifact struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	// SHA256 is in hexadecimal.
	SHA256 string `json:"sha256"`
}

// Validate returns an error for the first invalid field.
func (in Input) Validate() error {
	if err := in.validate(); err != nil {
		return err
	}
	return in.validateWorkspace()
}

// validate is Validate for the workflow.
func (in Input) validate() error {
	if err := in.Options.Validate(); err != nil {
		return err
	}
	if in.Options.Sandbox == session.SandboxParent {
		return session.Invalid("sandbox", fmt.Sprintf("is %q, and a job's session has no parent", session.SandboxParent), fmt.Sprintf("%q", session.SandboxOwn))
	}
	if err := in.message().Validate(); err != nil {
		return err
	}
	if in.SessionID != "" {
		if err := session.ValidateID("sessionId", in.SessionID); err != nil {
			return err
		}
	}
	if in.Repairs > MaxRepairs {
		return session.Invalid("repairs", fmt.Sprintf("is %d", in.Repairs), fmt.Sprintf("at most %d", MaxRepairs))
	}
	if in.CheckTimeoutMS < 0 || in.CheckTimeoutMS > MaxCheckTimeout.Milliseconds() {
		return session.Invalid("checkTimeoutMs", fmt.Sprintf("is %d", in.CheckTimeoutMS), fmt.Sprintf("1 to %d", MaxCheckTimeout.Milliseconds()))
	}
	if err := in.validateSchema(); err != nil {
		return err
	}
	if err := in.validateFiles(); err != nil {
		return err
	}
	for i, pattern := range in.Artifacts {
		if !validPattern(pattern) {
			return session.Invalid(fmt.Sprintf("artifacts[%d]", i), fmt.Sprintf("%q is no pattern", pattern), "a path such as report.md, or a pattern such as out/**/*.json")
		}
	}
	return nil
}

// ValidateRepeated is Validate for a job that is run more than once.
func (in Input) ValidateRepeated() error {
	if in.SessionID != "" {
		return session.Invalid("sessionId", fmt.Sprintf("is %q, and the job is run more than once", in.SessionID), "none: each run has a session of its own")
	}
	return in.Validate()
}

// taken is the error for the id of a session that exists.
func taken(sessionID string) error {
	return session.Invalid("sessionId", fmt.Sprintf("is taken by session %s", sessionID), "an id that no session has had, or none")
}

// schema returns the schema; nil for none. Clients in other languages write null for what
// they leave out.
func (in Input) schema() json.RawMessage {
	if len(in.Schema) == 0 || string(in.Schema) == "null" {
		return nil
	}
	return in.Schema
}

func (in Input) validateSchema() error {
	if len(in.Schema) > MaxSchemaBytes {
		return session.Invalid("schema", fmt.Sprintf("is %d bytes", len(in.Schema)), fmt.Sprintf("at most %d bytes", MaxSchemaBytes))
	}
	if in.schema() == nil {
		return nil
	}
	_, err := resolve(in.Schema)
	if err != nil {
		return session.Invalid("schema", err.Error(), "a JSON schema, draft 2020-12, without references to other documents")
	}
	return nil
}

func (in Input) validateFiles() error {
	if len(in.Files) > 0 && in.Options.Workspace != "" {
		return session.Invalid("files", "are given with options.workspace", "one of them: the folder of a host is used in place")
	}
	if len(in.Files) > MaxFiles {
		return session.Invalid("files", fmt.Sprintf("are %d", len(in.Files)), fmt.Sprintf("at most %d", MaxFiles))
	}
	seen, size := map[string]bool{}, 0
	for i, f := range in.Files {
		field := fmt.Sprintf("files[%d]", i)
		n, err := f.validate(field)
		switch {
		case err != nil:
			return err
		case seen[f.Path]:
			return session.Invalid(field+".path", fmt.Sprintf("%q is there twice", f.Path), "each path once")
		}
		seen[f.Path] = true
		size += n
	}
	if size > MaxFileBytes {
		return session.Invalid("files", fmt.Sprintf("are %d bytes", size), fmt.Sprintf("at most %d bytes in all", MaxFileBytes))
	}
	return nil
}

// validateWorkspace refuses what no workspace has. The workflow does not call it: one that is
// under way could not be replayed. Its activities refuse what can't be done.
func (in Input) validateWorkspace() error {
	if len(in.Artifacts) > 0 && in.Options.Workspace != "" {
		return session.Invalid("artifacts", "are wanted with options.workspace", "none: what the agent makes in a folder of a host stays there")
	}
	folders := map[string]string{}
	for i, f := range in.Files {
		if !validNames(f.Path) {
			return session.Invalid(fmt.Sprintf("files[%d].path", i), fmt.Sprintf("%q is no path that a file system takes", f.Path), fmt.Sprintf("names of at most %d bytes, and %d in all", maxName, maxPath))
		}
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			folders[dir] = f.Path
		}
	}
	for i, f := range in.Files {
		if below, is := folders[f.Path]; is {
			return session.Invalid(fmt.Sprintf("files[%d].path", i), fmt.Sprintf("%q is the folder of %q", f.Path, below), "a file with nothing below it")
		}
	}
	return nil
}

// maxName bounds each part of a path, as file systems do, and maxPath all of it.
const maxName, maxPath = 255, 4096

func validNames(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		if len(name) > maxName {
			return false
		}
	}
	return len(path) <= maxPath && !strings.ContainsRune(path, 0)
}

// validate returns the size of a file.
func (f File) validate(field string) (size int, err error) {
	if !fs.ValidPath(f.Path) || f.Path == "." {
		return 0, session.Invalid(field+".path", fmt.Sprintf("%q is no path in the workspace", f.Path), "a relative path such as src/main.go")
	}
	if f.Text != "" && f.Base64 != "" {
		return 0, session.Invalid(field, "has text and base64", "one of them")
	}
	data, err := f.Data()
	if err != nil {
		return 0, session.Invalid(field+".base64", err.Error(), "standard base64")
	}
	return len(data), nil
}

// message returns the first message to the agent, with what the schema demands.
func (in Input) message() session.Message {
	text := in.Prompt
	if in.schema() != nil {
		text = strings.TrimSpace(text + "\n\n" + schemaText + "\n" + string(in.Schema))
	}
	return session.Message{ID: contract.FirstJobMessage, Text: text, Parts: in.Parts}
}

// repair returns the message that asks for another answer, for the n-th time.
func repair(n int, mismatch string) session.Message {
	return session.Message{ID: contract.RepairMessage(n), Text: fmt.Sprintf(repairText, mismatch)}
}

const (
	schemaText = "End with one JSON value and nothing behind it. It must match this JSON schema:"
	repairText = "Your answer does not match the JSON schema: %s\n\nAnswer with the corrected JSON value and nothing else."
)

// repairs returns how often the agent may be asked for another answer.
func (in Input) repairs() int {
	switch {
	case in.Repairs < 0:
		return 0
	case in.Repairs == 0:
		return DefaultRepairs
	}
	return in.Repairs
}

// validPattern reports whether path.Match takes each part of a pattern.
func validPattern(pattern string) bool {
	for part := range strings.SplitSeq(pattern, "/") {
		if _, err := path.Match(part, ""); err != nil || part == "" {
			return false
		}
	}
	return true
}

// match reports whether the parts of a path match those of a valid pattern: path.Match for
// each, and ** for any number of them.
func match(pattern, name []string) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == "**":
		return match(pattern[1:], name) || len(name) > 0 && match(pattern, name[1:])
	case len(name) == 0:
		return false
	}
	ok, err := path.Match(pattern[0], name[0])
	return ok && err == nil && match(pattern[1:], name[1:])
}
