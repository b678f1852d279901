package tools

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

// project returns docker-compose.yml as the specification's own loader reads it,
// with an empty environment.
func project(t *testing.T) *types.Project { return projectWith(t, types.Mapping{}) }

// projectWith is project with the user's variables.
func projectWith(t *testing.T, env types.Mapping) *types.Project {
	t.Helper()
	dir := root(t)
	p, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  dir,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(dir, "docker-compose.yml")}},
		Environment: env,
	}, loader.WithProfiles([]string{"*"}))
	require.NoError(t, err)
	require.NotEmpty(t, p.Services)
	return p
}

// ours returns the services that run programs of this repository.
func ours(p *types.Project) types.Services {
	return p.Services.Filter(func(s types.ServiceConfig) bool { return s.Build != nil })
}

// fixed is an image with a version in its tag, or a digest.
var fixed = regexp.MustCompile(`(:v?\d+\.\d+[.\d]*(-[\w.-]+)?|@sha256:[0-9a-f]{64})$`)

func TestComposeImagesAreFixed(t *testing.T) {
	t.Parallel()
	p := project(t)
	for name, s := range p.Services {
		if s.Build == nil {
			require.Regexp(t, fixed, s.Image, name)
			continue
		}
		require.Equal(t, "sojourn:local", s.Image, name)
		for _, base := range baseImages(t, filepath.Join(s.Build.Context, s.Build.Dockerfile)) {
			require.Regexp(t, fixed, base, s.Build.Dockerfile)
		}
	}
	for _, loose := range []string{"nats", "nats:latest", "nats:2", "nats:alpine"} {
		require.NotRegexp(t, fixed, loose)
	}
}

var from = regexp.MustCompile(`(?m)^FROM (\S+)(?: AS (\S+))?$`)

func baseImages(t *testing.T, dockerfile string) []string {
	t.Helper()
	data, err := os.ReadFile(dockerfile)
	require.NoError(t, err)
	var bases, stages []string
	for _, m := range from.FindAllStringSubmatch(string(data), -1) {
		if !slices.Contains(stages, m[1]) {
			bases = append(bases, m[1])
		}
		stages = append(stages, m[2])
	}
	require.NotEmpty(t, bases)
	return bases
}

func TestComposeListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	seen := 0
	for name, s := range project(t).Services {
		require.NotEqual(t, "host", s.NetworkMode, name)
		for _, port := range s.Ports {
			seen++
			ip := net.ParseIP(port.HostIP)
			require.True(t, ip != nil && ip.IsLoopback(), "%s publishes %s on %q", name, port.Published, port.HostIP)
		}
	}
	require.Positive(t, seen)
}

// A dependency on health needs a service with a health check; one on completion
// needs a service that ends.
func TestComposeDependenciesCanBeMet(t *testing.T) {
	t.Parallel()
	p := project(t)
	for name, s := range p.Services {
		for needed, how := range s.DependsOn {
			dependency, err := p.GetService(needed)
			require.NoError(t, err, name)
			switch how.Condition {
			case types.ServiceConditionHealthy:
				require.NotNil(t, dependency.HealthCheck, "%s waits for the health of %s", name, needed)
				require.NotEmpty(t, dependency.HealthCheck.Test, needed)
			case types.ServiceConditionCompletedSuccessfully:
				require.Contains(t, dependency.Restart, "on-failure", "%s waits for the end of %s", name, needed)
			default:
				t.Errorf("%s waits for %s to be %s, which says nothing", name, needed, how.Condition)
			}
		}
	}
}

func TestComposeKeepsAndMountsWhatThereIs(t *testing.T) {
	t.Parallel()
	p := project(t)
	mounted := map[string]string{}
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			switch v.Type {
			case types.VolumeTypeBind:
				require.True(t, v.ReadOnly, "%s can write into the repository", name)
				require.DirExists(t, v.Source, name)
				requireMountedFiles(t, s, v)
			case types.VolumeTypeVolume:
				require.Contains(t, p.Volumes, v.Source, name)
				if v.ReadOnly {
					continue
				}
				require.Empty(t, mounted[v.Source], "%s and %s write into one volume", name, mounted[v.Source])
				mounted[v.Source] = name
			}
		}
	}
	for volume := range p.Volumes {
		require.NotEmpty(t, mounted[volume], "nobody mounts the volume %s", volume)
	}
}

// requireMountedFiles looks for every file of a mounted folder that a service's
// command or settings name.
func requireMountedFiles(t *testing.T, s types.ServiceConfig, v types.ServiceVolumeConfig) {
	t.Helper()
	named := slices.Concat(s.Entrypoint, s.Command)
	for _, value := range s.Environment {
		if value != nil {
			named = append(named, *value)
		}
	}
	found := 0
	for _, word := range named {
		if rest, ok := strings.CutPrefix(word, v.Target+"/"); ok {
			found++
			require.FileExists(t, filepath.Join(v.Source, rest), s.Name)
		}
	}
	require.Positive(t, found, "%s uses nothing of %s", s.Name, v.Source)
}

// No passed setting is ignored: a setting that no program reads would seem to
// have an effect.
func TestComposePassesSettingsThatAreRead(t *testing.T) {
	t.Parallel()
	read := settingsRead(t)
	for name, s := range ours(project(t)) {
		passedOn := strings.Split(value(s, "SOJOURN_PASS_ENV"), ",")
		for variable := range s.Environment {
			if !slices.Contains(passedOn, variable) {
				require.Contains(t, read, variable, "%s is passed to %s, which does not read it", variable, name)
			}
		}
		for _, variable := range passedOn {
			if variable != "" {
				require.Contains(t, s.Environment, variable, "%s may pass it on but has not got it", name)
			}
		}
	}
	require.NotContains(t, read, "SOJOURN_NO_SUCH_SETTING")
}

func TestComposeSettingsReachTheServers(t *testing.T) {
	t.Parallel()
	p := project(t)
	for name, s := range ours(p) {
		require.Equal(t, "temporal:7233", value(s, "TEMPORAL_ADDRESS"), name)
		require.Equal(t, "nats://nats:4222", value(s, "NATS_URL"), name)
		require.Equal(t, "/keys/nats.env", value(s, "SOJOURN_ENV_FILE"), "%s: the token of NATS", name)
		require.True(t, slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == "/keys" && v.ReadOnly }), name)
		require.Equal(t, "http://s3:7070", value(s, "AWS_ENDPOINT_URL_S3"), name)
		require.Equal(t, value(p.Services["s3"], "ROOT_ACCESS_KEY_ID"), value(s, "AWS_ACCESS_KEY_ID"), name)
		require.Equal(t, value(p.Services["s3"], "ROOT_SECRET_ACCESS_KEY"), value(s, "AWS_SECRET_ACCESS_KEY"), name)
		require.Equal(t, value(p.Services["s3"], "VGW_REGION"), value(s, "AWS_REGION"), name)
	}
	require.Equal(t, []string{"sojourn-worker", "supervise"}, dockerfileCommand(t), "a restart of the worker must be no host loss")
}

var command = regexp.MustCompile(`(?m)^CMD \["(.*)"\]$`)

func dockerfileCommand(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(t), "deploy", "Dockerfile"))
	require.NoError(t, err)
	m := command.FindSubmatch(data)
	require.NotNil(t, m)
	return strings.Split(string(m[1]), `", "`)
}

func value(s types.ServiceConfig, name string) string {
	if v := s.Environment[name]; v != nil {
		return *v
	}
	return ""
}

// described matches an agent's variables in docs/agents.md, which is generated
// from the adapters.
var described = regexp.MustCompile("(?m)^  - `([A-Z][A-Z0-9_]+)`:")

// Compose passes every variable that an agent of the image reads.
func TestComposePassesEveryAgentsVariables(t *testing.T) {
	t.Parallel()
	agents, err := os.ReadFile(filepath.Join(root(t), "docs", "agents.md"))
	require.NoError(t, err)
	found := described.FindAllSubmatch(agents, -1)
	require.GreaterOrEqual(t, len(found), 8)
	worker := project(t).Services["sojourn-worker"]
	passed := strings.Split(value(worker, "SOJOURN_PASS_ENV"), ",")
	own := types.Mapping{}
	for _, m := range found {
		name := string(m[1])
		if strings.HasPrefix(name, "SOJOURN_") {
			continue // the worker's own settings for it
		}
		require.Contains(t, passed, name)
		own[name] = "given " + name
	}
	for name, given := range own {
		require.Equal(t, given, value(projectWith(t, maps.Clone(own)).Services["sojourn-worker"], name))
	}
}

// The image has every agent that is pinned, by name.
func TestImageHasEveryAgent(t *testing.T) {
	t.Parallel()
	image := string(deployed(t, "Dockerfile"))
	require.Contains(t, image, "RUN internal/agents/install.sh\n")
	require.Contains(t, image, "COPY --from=agents /opt/sojourn/.agents /opt/sojourn/.agents\n")
	require.Contains(t, image, "\nENV PATH=/opt/sojourn/.agents/bin:$PATH\n", "install.sh puts a link of each agent's name there")
	install, err := os.ReadFile(filepath.Join(root(t), "internal", "agents", "install.sh"))
	require.NoError(t, err)
	for _, agent := range []string{"claude", "codex", "gemini", "opencode"} {
		require.Contains(t, string(install), "\n"+agent+" ")
	}
}

func TestComposeMountsARepository(t *testing.T) {
	t.Parallel()
	mount := func(p *types.Project) types.ServiceVolumeConfig {
		volumes := p.Services["sojourn-worker"].Volumes
		i := slices.IndexFunc(volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == "/workspace" })
		require.GreaterOrEqual(t, i, 0)
		return volumes[i]
	}
	dir := t.TempDir()
	given := mount(projectWith(t, types.Mapping{"SOJOURN_REPOSITORY": dir}))
	require.Equal(t, types.VolumeTypeBind, given.Type)
	require.Equal(t, dir, given.Source)
	require.False(t, given.ReadOnly)
	require.Equal(t, types.VolumeTypeVolume, mount(project(t)).Type, "nothing of the host unless it is named")
}

// A worker that keeps crashing below its supervisor is not healthy.
func TestWorkersHealthIsItsReadiness(t *testing.T) {
	t.Parallel()
	check := []string{"CMD", "sojourn-worker", "health"}
	require.Equal(t, check, []string(project(t).Services["sojourn-worker"].HealthCheck.Test))
}
