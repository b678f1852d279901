// Package nativejson reads the JSON lines of agents: as encoding/json would, but
// in one pass, and with errors in the words that people know.
package nativejson
