package mutants

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sojourn-run/sojourn/test/clients"
)

// endToEnd is the package whose tests run the programs.
const endToEnd = "test/e2e"

// noSymbols leaves out the debugger's symbols, which take half of the link time.
const noSymbols = "-ldflags=-w"

// programs are the repository's programs that end-to-end tests run, by name.
// sojourn-devstack is a module of its own that no mutant changes.
var programs = map[string]string{
	"sojourn": "cmd/sojourn", "sojourn-worker": "cmd/sojourn-worker", "sojourn-runner": "runner/cmd/sojourn-runner", "sojourn-modelsim": "test/modelsim/cmd/sojourn-modelsim",
}

// built is a compiled test program with what it needs to run.
type built struct {
	test string
	// overlay is the mutant's overlay file, "" without a mutant. Tests that build
	// programs themselves build them with it.
	overlay string
	// bin is the folder with the programs, "" if the tests need none.
	bin string
	// client is the folder with the changed client in TypeScript, "" for the tree's own.
	client string
}

// buildClean builds a package's tests without a mutant.
func (r *Runner) buildClean(ctx context.Context, pkg string) (built, error) {
	b := built{test: filepath.Join(r.dir, strings.ReplaceAll(pkg, "/", "-")+".test")}
	if pkg == endToEnd {
		b.bin = filepath.Join(r.Root, "bin")
	}
	if _, err := os.Stat(b.test); err == nil {
		return b, nil
	}
	return b, r.compile(ctx, b.test, pkg, "")
}

// build builds a mutant in a folder: the tests and, for end-to-end tests, the programs.
// A program that does not contain the changed file is not built again.
func (r *Runner) build(ctx context.Context, dir string, m Mutant) (built, error) {
	if strings.HasPrefix(m.File, client) {
		return r.buildClient(ctx, dir, m)
	}
	overlay, err := r.overlay(dir, m)
	if err != nil {
		return built{}, err
	}
	b := built{test: filepath.Join(dir, "mutant.test"), overlay: overlay}
	changed, err := r.contains(ctx, m.Package, path.Dir(m.File))
	if err != nil {
		return built{}, err
	}
	if changed {
		err = r.compile(ctx, b.test, m.Package, overlay)
	} else {
		var clean built
		clean, err = r.buildClean(ctx, m.Package)
		b.test = clean.test
	}
	if err != nil || m.Package != endToEnd {
		return b, err
	}
	b.bin = filepath.Join(dir, "bin")
	return b, r.buildPrograms(ctx, b.bin, path.Dir(m.File), overlay)
}

// client is the folder of the client in TypeScript.
const client = "clients/typescript/"

// buildClient builds the client with a mutant, in a copy of its folder.
func (r *Runner) buildClient(ctx context.Context, dir string, m Mutant) (built, error) {
	b, err := r.buildClean(ctx, m.Package)
	if err != nil {
		return b, err
	}
	source, err := m.Apply(os.DirFS(r.Root))
	if err != nil {
		return b, err
	}
	b.client = filepath.Join(dir, "client")
	if err := os.RemoveAll(b.client); err != nil {
		return b, err
	}
	cp := exec.CommandContext(ctx, "cp", "-r", filepath.Join(r.Root, filepath.FromSlash(client)), b.client)
	if out, err := cp.CombinedOutput(); err != nil {
		return b, fmt.Errorf("copy %s: %w\n%s", client, err, out)
	}
	if err := os.WriteFile(filepath.Join(b.client, filepath.FromSlash(strings.TrimPrefix(m.File, client))), source, 0o600); err != nil {
		return b, err
	}
	npm := exec.CommandContext(ctx, "npm", "run", "--silent", "build")
	npm.Dir = b.client
	if out, err := npm.CombinedOutput(); err != nil {
		return b, fmt.Errorf("build %s: %w (make clients installs what it needs)\n%s", client, err, out)
	}
	return b, nil
}

// overlay writes the changed file and the overlay file for the compiler, and returns
// the latter's path.
func (r *Runner) overlay(dir string, m Mutant) (string, error) {
	source, err := m.Apply(os.DirFS(r.Root))
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(r.Root, filepath.FromSlash(m.File)): changed}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(changed, source, 0o600), os.WriteFile(overlay, replace, 0o600))
}

func (r *Runner) buildPrograms(ctx context.Context, bin, changed, overlay string) error {
	if err := errors.Join(os.RemoveAll(bin), os.Mkdir(bin, 0o755)); err != nil {
		return err
	}
	for name, pkg := range programs {
		holds, err := r.contains(ctx, pkg, changed)
		if err != nil {
			return err
		}
		if holds {
			err = r.run(ctx, "build", noSymbols, "-overlay", overlay, "-o", filepath.Join(bin, name), "./"+pkg)
		} else {
			err = r.link(bin, name)
		}
		if err != nil {
			return err
		}
	}
	return r.link(bin, "sojourn-devstack")
}

// link hard-links an unchanged program. A symbolic link would not do: a worker uses the
// runner beside its own executable, and would look beside the link's target.
func (r *Runner) link(bin, name string) error {
	err := os.Link(filepath.Join(r.Root, "bin", name), filepath.Join(bin, name))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w (make build makes it)", err)
	}
	return err
}

// contains reports whether a package or its tests depend on a folder.
func (r *Runner) contains(ctx context.Context, pkg, dir string) (bool, error) {
	if _, known := r.deps[pkg]; !known {
		cmd := exec.CommandContext(ctx, "go", "list", "-test", "-deps", "-f", "{{.Dir}}", "./"+pkg)
		cmd.Dir = r.Root
		out, err := cmd.Output()
		if err != nil {
			return false, fmt.Errorf("go list %s: %w", pkg, err)
		}
		r.deps[pkg] = strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	return slices.Contains(r.deps[pkg], filepath.Join(r.Root, filepath.FromSlash(dir))), nil
}

func (r *Runner) compile(ctx context.Context, to, pkg, overlay string) error {
	args := []string{"test", "-c", "-vet=off", noSymbols, "-o", to}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	return r.run(ctx, append(args, "./"+pkg)...)
}

func (r *Runner) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.Root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// environment returns the environment of a test program. A test that would skip fails,
// since it proves nothing.
func (r *Runner) environment(b built) []string {
	env := append(os.Environ(), "SOJOURN_TEST_STRICT=1", "SOJOURN_DEVSTACK_BIN="+filepath.Join(r.Root, "bin", "sojourn-devstack"))
	agents := filepath.Join(r.Root, ".agents", "bin")
	if b.bin != "" {
		env = append(env, "SOJOURN_BIN="+b.bin, "SOJOURN_WORKER_BIN="+filepath.Join(b.bin, "sojourn-worker"))
	}
	env = append(env, "PATH="+strings.Join([]string{cmp.Or(b.bin, filepath.Join(r.Root, "bin")), agents, os.Getenv("PATH")}, ":"))
	if b.client != "" {
		env = append(env, clients.Variable+"="+b.client)
	}
	if b.overlay != "" {
		env = append(env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+b.overlay))
	}
	return env
}
