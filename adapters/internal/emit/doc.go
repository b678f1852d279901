// Package emit is what translators and parsers of all agents do in the same way
// to emit events: an [Emitter] collects the events of a record or line, a [Yielder]
// hands a parser's events to the caller who ranges over them, and [LoadState] reads what
// a translator continues from.
package emit
