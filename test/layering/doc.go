// Package layering tests which package may import which. It has no code outside tests.
//
// A rule names its packages, what they must not import (directly, or through others
// too), and why. To change a dependency, change the rule and give the reason in
// docs/decisions.
package layering
