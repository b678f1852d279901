// Package nativejson reads the JSON lines of agents: as encoding/json would, but
// in one pass, and with errors in familiar terms. Of lines whose form is known,
// such as the pieces of text that most lines are, it reads strings without a
// decoder. All functions are pure.
package nativejson
