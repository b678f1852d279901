// Package starter is the command line, as package cmd/sojourn installs it. It is
// wiring: one file per group of commands, the connections in connect.go (made
// when a command first needs them), output for people in internal/render.
// testdata/script is a manual by example, and a test.
package starter
