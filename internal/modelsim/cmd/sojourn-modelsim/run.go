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
	"time"

	"github.com/sojourn-run/sojourn/internal/modelsim"
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
		f.Usage()
		return c, err
	case err != nil:
		return c, usageError{err}
	}
	if f.NArg() > 0 {
		return c, usageError{fmt.Errorf("unexpected argument %q", f.Arg(0))}
	}
	return c, nil
}

// The key is no secret: the server takes any, but agents insist on having one.
const key = "sk-modelsim"

func announce(c config, url string, stdout io.Writer) error {
	env := fmt.Sprintf("ANTHROPIC_BASE_URL=%s\nANTHROPIC_API_KEY=%s\n", url, key)
	if c.envFile != "" {
		if err := writeWhole(c.envFile, env); err != nil {
			return fmt.Errorf("write the env file: %w", err)
		}
	}
	if !c.json {
		_, err := io.WriteString(stdout, env)
		return err
	}
	return json.NewEncoder(stdout).Encode(map[string]string{"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": key})
}

// writeWhole lets nobody who waits for the file read half of it.
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
