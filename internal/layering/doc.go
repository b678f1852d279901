// Package layering keeps two promises of the design by tests: which package
// may import which, and that every requirement of the current stage has a test
// of its name. It has no code outside tests.
//
// A rule names the packages it is about, what they must not import (directly,
// or by way of others too), and why. To change an arrow, change the rule and
// say the reason in docs/decisions.
package layering
