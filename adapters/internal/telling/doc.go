// Package telling is what translators and parsers of different agents do in the
// same way to be heard: a translator goes on from a carried state and keeps lines
// that it cannot read, a parser hands its events to whoever ranges over them.
package telling
