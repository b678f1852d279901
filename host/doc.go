// Package host is what a worker keeps on its machine for the sandboxes that it
// serves. It does no work of a turn: package activities does, with what it finds
// here.
package host
