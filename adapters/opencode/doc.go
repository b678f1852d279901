// Package opencode is the adapter of OpenCode.
package opencode
