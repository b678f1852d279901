package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// readers are the modules whose reading of the environment counts: this one, and
// the two that read it for it.
var readers = []string{
	"github.com/sojourn-run/sojourn",
	"go.temporal.io/sdk/contrib/envconfig",
	"github.com/aws/aws-sdk-go-v2/config",
}

var settingName = regexp.MustCompile(`^(SOJOURN|TEMPORAL|NATS|AWS)_[A-Z0-9_]+$`)

// settingsRead returns the variables named in the sources of the worker and the
// command line.
func settingsRead(t *testing.T) map[string]bool {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Dir,GoFiles,Module", "./worker", "./starter")
	list.Dir = root(t)
	list.Env = append(list.Environ(), "GOOS=linux")
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	require.NoError(t, err, stderr.String())
	names := map[string]bool{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir     string
			GoFiles []string
			Module  *struct{ Path string }
		}
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if p.Module == nil || !slices.Contains(readers, p.Module.Path) {
			continue
		}
		for _, file := range p.GoFiles {
			addSettings(t, names, filepath.Join(p.Dir, file))
		}
	}
	require.Contains(t, names, "SOJOURN_DATA_DIR")
	return names
}

func addSettings(t *testing.T, names map[string]bool, file string) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(tree, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && settingName.MatchString(s) {
				names[s] = true
			}
		}
		return true
	})
}

var templateVariable = regexp.MustCompile(`\benv "([A-Z0-9_]+)"`)

func TestTemporalReadsWhatComposePassesToIt(t *testing.T) {
	t.Parallel()
	// The two are flags of the server's command line.
	read := map[string]bool{"TEMPORAL_SERVER_CONFIG_FILE_PATH": true, "TEMPORAL_ALLOW_NO_AUTH": true}
	for _, m := range templateVariable.FindAllSubmatch(deployed(t, "temporal/server.yaml"), -1) {
		read[string(m[1])] = true
	}
	for variable := range project(t).Services["temporal"].Environment {
		require.Contains(t, read, variable)
	}
}

// What applies to the development stack must apply here.
func TestTemporalIsTunedLikeTheDevelopmentStack(t *testing.T) {
	t.Parallel()
	var file map[string][]struct {
		Value       any            `yaml:"value"`
		Constraints map[string]any `yaml:"constraints"`
	}
	require.NoError(t, yaml.Unmarshal(deployed(t, "temporal/dynamicconfig.yaml"), &file))
	here := map[string]string{}
	for key, values := range file {
		require.Len(t, values, 1, key)
		require.Empty(t, values[0].Constraints, key)
		text, err := json.Marshal(values[0].Value)
		require.NoError(t, err)
		here[key] = string(text)
	}
	require.Equal(t, devstackTuning(t), here)
}

// devstackTuning parses the map of settings in the development stack's source:
// importing it would add the Temporal server as a dependency.
func devstackTuning(t *testing.T) map[string]string {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), "devstack", "temporal.go"), nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	tuning := map[string]string{}
	ast.Inspect(tree, func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, isText := pair.Key.(*ast.BasicLit)
		if !isText || key.Kind != token.STRING || !strings.Contains(key.Value, ".") {
			return true
		}
		name, err := strconv.Unquote(key.Value)
		require.NoError(t, err)
		switch v := pair.Value.(type) {
		case *ast.BasicLit:
			tuning[name] = strings.ReplaceAll(v.Value, "_", "")
		case *ast.Ident:
			tuning[name] = v.Name
		default:
			t.Errorf("%s has a value that is no literal", name)
		}
		return true
	})
	require.Contains(t, tuning, "history.transferProcessorMaxPollRPS")
	return tuning
}

var pinnedInstall = regexp.MustCompile(`(?m)^(\w+)_version=v?(\S+)$`)

// deploy/check-config.sh starts the programs of the images.
func TestTheConfigurationIsCheckedWithTheImagesVersions(t *testing.T) {
	t.Parallel()
	pinned := map[string]string{}
	for _, m := range pinnedInstall.FindAllStringSubmatch(string(deployed(t, "check-config.sh")), -1) {
		pinned[m[1]] = m[2]
	}
	services := project(t).Services
	for program, service := range map[string]string{"temporal": "temporal", "nats": "nats", "versitygw": "s3"} {
		_, tag, _ := strings.Cut(services[service].Image, ":")
		version, _, _ := strings.Cut(strings.TrimPrefix(tag, "v"), "-")
		require.Equal(t, version, pinned[program], program)
	}
	require.Equal(t, services["temporal"].Image[len("temporalio/server"):],
		services["temporal-schema"].Image[len("temporalio/admin-tools"):], "the schema is of another version than the server")
}

func deployed(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(t), "deploy", filepath.FromSlash(name)))
	require.NoError(t, err)
	return data
}
