//go:build linux

package jail

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestViewRules(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, dir := range []string{"home/proj/.dev/boxes/1/home", "home/proj/src", "home/tools/bin", "data/x", "other"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	require.NoError(t, os.Symlink("data", filepath.Join(root, "link")))
	at := func(paths ...string) (out []string) {
		for _, p := range paths {
			out = append(out, filepath.Join(root, p))
		}
		return out
	}
	for name, c := range map[string]struct {
		view View
		want map[string]ruleKind
	}{
		"nothing hidden, nothing changes": {View{Keep: at("other"), KeepReadOnly: at("home")}, map[string]ruleKind{}},
		"data folder inside a workspace inside the home": {
			View{Hide: at("home", "home/proj/.dev"), Keep: at("home/proj", "home/proj/.dev/boxes/1/home"), KeepReadOnly: at("home/tools/bin")},
			map[string]ruleKind{"home": hidden, "home/proj": writable, "home/proj/.dev": hidden, "home/proj/.dev/boxes/1/home": writable, "home/tools/bin": readOnly},
		},
		"hidden within hidden is one":     {View{Hide: at("home", "home/proj")}, map[string]ruleKind{"home": hidden}},
		"kept wins over hidden":           {View{Hide: at("home"), Keep: at("home")}, map[string]ruleKind{}},
		"writable below read-only":        {View{Hide: at("home"), KeepReadOnly: at("home/proj"), Keep: at("home/proj/src")}, map[string]ruleKind{"home": hidden, "home/proj": readOnly, "home/proj/src": writable}},
		"read-only takes nothing away":    {View{Hide: at("home"), KeepReadOnly: at("home/proj/src"), Keep: at("home/proj")}, map[string]ruleKind{"home": hidden, "home/proj": writable}},
		"symlinks are resolved":           {View{Hide: at("link"), Keep: at("link/x")}, map[string]ruleKind{"data": hidden, "data/x": writable}},
		"what does not exist is left out": {View{Hide: at("home", "nope"), Keep: at("home/nope")}, map[string]ruleKind{"home": hidden}},
		"the root is never hidden":        {View{Hide: []string{"/"}}, map[string]ruleKind{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := map[string]ruleKind{}
			for _, r := range c.view.rules() {
				rel, err := filepath.Rel(root, r.path)
				require.NoError(t, err)
				got[rel] = r.kind
			}
			require.Equal(t, c.want, got)
		})
	}
}
