package profiles

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/sojourn-run/sojourn/adapters"
)

// reader reads one profile and counts what it has read. Its file system is a
// root, which no symbolic link leaves.
type reader struct {
	ctx   context.Context
	fsys  fs.FS
	opts  Options
	files int
	bytes int64
}

func (r *reader) profile(id string) (adapters.Profile, error) {
	var p adapters.Profile
	if err := r.json("profile.json", &p); err != nil {
		return p, err
	}
	p.ID = id
	var err error
	if text, found, readErr := r.optional("instructions.md"); readErr != nil {
		return p, readErr
	} else if found {
		p.Instructions = text
	}
	if p.Workspace, err = r.tree("workspace", p.Workspace); err != nil {
		return p, err
	}
	if err := r.parts(".", &p); err != nil {
		return p, err
	}
	return p, r.plugins(&p)
}

// parts reads what a profile and a plugin may both have.
func (r *reader) parts(dir string, p *adapters.Profile) (err error) {
	for _, part := range []struct {
		dir   string
		files *map[string]string
	}{{"rules", &p.Rules}, {"agents", &p.Subagents}, {"commands", &p.Commands}} {
		if *part.files, err = r.markdown(path.Join(dir, part.dir), *part.files); err != nil {
			return err
		}
	}
	if err := r.skills(path.Join(dir, "skills"), p); err != nil {
		return err
	}
	return r.servers(dir, p)
}

func (r *reader) skills(dir string, p *adapters.Profile) error {
	names, err := r.folders(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		files, err := r.tree(path.Join(dir, name), nil)
		if err != nil {
			return err
		}
		put(&p.Skills, name, files)
	}
	return nil
}

func (r *reader) servers(dir string, p *adapters.Profile) error {
	var given struct {
		MCPServers map[string]adapters.MCPServer `json:"mcpServers"`
	}
	if err := r.json(path.Join(dir, "mcp.json"), &given); err != nil {
		return err
	}
	for name, s := range given.MCPServers {
		put(&p.MCPServers, name, s)
	}
	bundles := path.Join(dir, "mcp")
	names, err := r.folders(bundles)
	if err != nil {
		return err
	}
	for _, name := range names {
		dir := path.Join(bundles, name)
		var b adapters.BundledMCP
		if err := r.json(path.Join(dir, "server.json"), &b); err != nil {
			return err
		}
		if b.Files, err = r.tree(dir, b.Files); err != nil {
			return err
		}
		delete(b.Files, "server.json")
		put(&p.BundledMCP, name, b)
	}
	return nil
}

func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

// json reads a file into v; a missing file does not change v, an unknown field is
// an error.
func (r *reader) json(name string, v any) error {
	text, found, err := r.optional(name)
	if err != nil || !found {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("file %s: %w", name, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("file %s: more than one JSON value", name)
	}
	return nil
}

// markdown reads the Markdown files of a folder, by name without extension.
func (r *reader) markdown(dir string, into map[string]string) (map[string]string, error) {
	files, err := r.tree(dir, nil)
	if err != nil {
		return nil, err
	}
	for name, text := range files {
		short, isMarkdown := strings.CutSuffix(name, ".md")
		if !isMarkdown {
			return nil, fmt.Errorf("file %s: not a .md file", path.Join(dir, name))
		}
		put(&into, short, text)
	}
	return into, nil
}

// tree reads all files below a folder, by their path in it.
func (r *reader) tree(dir string, into map[string]string) (map[string]string, error) {
	err := fs.WalkDir(r.fsys, dir, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name == dir {
			return fs.SkipAll
		}
		if err != nil || d.IsDir() {
			return err
		}
		text, err := r.read(name)
		if err != nil {
			return err
		}
		put(&into, strings.TrimPrefix(name, dir+"/"), text)
		return nil
	})
	return into, err
}

func (r *reader) folders(dir string) ([]string, error) {
	entries, err := fs.ReadDir(r.fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("folder %s: %w", dir, err)
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			return nil, fmt.Errorf("file %s: want a folder here", path.Join(dir, e.Name()))
		}
		names = append(names, e.Name())
	}
	return names, nil
}

func (r *reader) optional(name string) (text string, found bool, err error) {
	text, err = r.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	return text, err == nil, err
}

// read reads one regular text file within the limits.
func (r *reader) read(name string) (string, error) {
	if err := r.ctx.Err(); err != nil {
		return "", err
	}
	info, err := fs.Stat(r.fsys, name)
	if err != nil {
		return "", fmt.Errorf("file %s: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("file %s: not a regular file", name)
	}
	if r.files++; r.files > r.opts.MaxFiles {
		return "", fmt.Errorf("file %s: more than %d files", name, r.opts.MaxFiles)
	}
	f, err := r.fsys.Open(name)
	if err != nil {
		return "", fmt.Errorf("file %s: %w", name, err)
	}
	defer f.Close()
	left := r.opts.MaxBytes - r.bytes
	data, err := io.ReadAll(io.LimitReader(f, left+1))
	if err != nil {
		return "", fmt.Errorf("file %s: %w", name, err)
	}
	if int64(len(data)) > left {
		return "", fmt.Errorf("file %s: all files together are larger than %d bytes", name, r.opts.MaxBytes)
	}
	r.bytes += int64(len(data))
	if !utf8.Valid(data) {
		return "", fmt.Errorf("file %s: not UTF-8 text", name)
	}
	return string(data), nil
}
