// Package jsonl reads and writes events and native records as JSON lines.
//
// [Decode] and [DecodeRecords] read lines of any length, [Encoder] writes them.
// The first bad line ends the sequence with an error that names it; what was read
// before it is valid. A [LineCutter] holds one native line in bounded memory.
package jsonl
