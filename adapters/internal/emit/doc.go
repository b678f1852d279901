// Package emit is the common part of all agents' translators and parsers: an
// [Emitter] collects the events of a record or line, a [Yielder] yields a
// parser's events to the caller that ranges over them, and [LoadState] reads a
// translator's state.
package emit
