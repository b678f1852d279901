package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sojourn-run/sojourn/test/modelsim"
)

type usageError struct{ error }

type config struct {
	addr    string
	envFile string
	json    bool
	sim     modelsim.Options
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	c, err := parse(args, stdout)
	if err != nil {
		return err
	}
	if dir := c.sim.RecordDir; dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make the record folder: %w", err)
		}
	}
	sim := modelsim.New(c.sim)
	defer sim.Close()
	url, err := sim.Start(ctx, c.addr)
	if err != nil {
		return err
	}
	if err := announce(c, url, stdout); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// about begins the help.
const about = `Usage: sojourn-modelsim [flags]

Serves a scripted model to agent command lines, at one address for all of them:
  POST /v1/messages                    Anthropic: Claude Code
  POST /v1/chat/completions            OpenAI chat: OpenCode
  POST /v1/responses                   OpenAI responses: Codex
  POST /v1beta/models/M:generateContent, :streamGenerateContent
                                       Google: Gemini CLI
and for control: GET /stats, GET /gates, POST /gates/NAME, GET /requests/last.
Prints the variables by which agents find it when it listens.

Flags:
`

func parse(args []string, stdout io.Writer) (config, error) {
	var c config
	f := flag.NewFlagSet("sojourn-modelsim", flag.ContinueOnError)
	f.SetOutput(io.Discard) // one line for an error, by main
	f.StringVar(&c.addr, "addr", "127.0.0.1:0", "`address` to listen on; port 0 takes a free one")
	f.StringVar(&c.envFile, "env-file", "", "`file` that gets the assignments when the server is ready")
	f.BoolVar(&c.json, "json", false, "print one JSON object instead of assignments")
	f.DurationVar(&c.sim.Pace, "pace", 20*time.Millisecond, "`time` between two deltas of a text")
	f.StringVar(&c.sim.RecordDir, "record", "", "`folder` that keeps the last requests as files")
	f.IntVar(&c.sim.Keep, "keep", 20, "how many requests are kept")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		f.SetOutput(stdout)
		fmt.Fprint(stdout, about)
		f.PrintDefaults()
		return c, err
	case err != nil:
		return c, usageError{err}
	}
	if f.NArg() > 0 {
		return c, usageError{fmt.Errorf("unexpected argument %q", f.Arg(0))}
	}
	return c, nil
}

func announce(c config, url string, stdout io.Writer) error {
	var env strings.Builder
	object := map[string]string{}
	for _, variable := range modelsim.Environment(url) {
		name, value, _ := strings.Cut(variable, "=")
		fmt.Fprintf(&env, "%s=%s\n", name, shellWord(value))
		object[name] = value
	}
	if c.envFile != "" {
		if err := writeWhole(c.envFile, env.String()); err != nil {
			return fmt.Errorf("write the env file: %w", err)
		}
	}
	if !c.json {
		_, err := io.WriteString(stdout, env.String())
		return err
	}
	return json.NewEncoder(stdout).Encode(object)
}

// shellWord writes a value as a shell reads it.
func shellWord(value string) string {
	special := func(r rune) bool {
		return !strings.ContainsRune("-_./:@", r) && !('0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	}
	if value != "" && !strings.ContainsFunc(value, special) {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

// writeWhole replaces a file at once: no reader sees half of it.
func writeWhole(file, content string) error {
	part, err := os.CreateTemp(filepath.Dir(file), ".env-*")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name())
	if _, err := part.WriteString(content); err != nil {
		part.Close()
		return err
	}
	if err := part.Close(); err != nil {
		return err
	}
	return os.Rename(part.Name(), file)
}
