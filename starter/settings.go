package starter

import (
	"cmp"

	"github.com/sojourn-run/sojourn/internal/settings"
)

// loadSettings reads the settings file, if one is named, and uses it for
// variables that the environment does not set.
func (c *cli) loadSettings() error {
	var err error
	c.env, err = settings.Open(cmp.Or(c.envFile, c.getenv("SOJOURN_ENV_FILE")), c.getenv)
	if err != nil {
		return usage("name a file of NAME='value' lines, such as sojourn-devstack writes", "%s", err)
	}
	return c.env.Export()
}
