package starter

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/sojourn-run/sojourn/permission"
)

func TestUnknownEffectFlag(t *testing.T) {
	t.Parallel()
	parse := func(args ...string) (optionFlags, error) {
		var f optionFlags
		cmd := &cobra.Command{}
		f.given = cmd.Flags().Changed
		f.registerPermissions(cmd)
		return f, cmd.ParseFlags(args)
	}
	f, err := parse("--unknown-effect", "continue:Bash:make test*", "--unknown-effect", "ask:Bash:make http://x:1*", "--unknown-effect", "fail:*")
	require.NoError(t, err)
	o, err := f.options()
	require.Error(t, err, "no agent")
	require.Equal(t, permission.EffectRules{
		{Tool: "Bash", Match: "make test*", Then: permission.LossContinue},
		{Tool: "Bash", Match: "make http://x:1*", Then: permission.LossAsk},
		{Tool: "*", Then: permission.LossFail},
	}, o.UnknownEffects)
	_, err = parse("--unknown-effect", "allow:Bash")
	require.ErrorContains(t, err, `unknownEffects[0].then is "allow", want continue, ask or fail`)
	_, err = parse("--unknown-effect", "ask")
	require.ErrorContains(t, err, "unknownEffects[0].tool is empty")
}
