// Package gemini is the adapter of Gemini CLI.
package gemini
