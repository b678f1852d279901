// Package layering keeps a promise of the design by tests: which package may
// import which. It has no code outside tests.
//
// A rule names the packages it is about, what they must not import (directly,
// or by way of others too), and why. To change an arrow, change the rule and
// say the reason in docs/decisions.
package layering
